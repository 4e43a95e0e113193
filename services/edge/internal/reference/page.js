// Finds routes, types of events, scopes and error codes by words that all must be in their text. Without scripts the page is
// as useful, and the field is not shown.

const field = document.getElementById("search");
const status = document.getElementById("found");
const entries = [...document.querySelectorAll("article, #codes-table tbody tr, #scopes-table tbody tr")]
  .map((element) => ({ element, text: element.textContent.toLowerCase() }));
const groups = [...document.querySelectorAll(".group")];

function find() {
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  let found = 0;
  for (const { element, text } of entries) {
    element.hidden = !words.every((word) => text.includes(word));
    if (!element.hidden) found++;
  }
  for (const group of groups) group.hidden = group.querySelector("article:not([hidden])") === null;
  status.textContent = words.length === 0 ? "" : `${found} found`;
}

field.addEventListener("input", find);
document.getElementById("search-form").hidden = false;
find();
