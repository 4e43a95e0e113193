// Finds routes, scopes and error codes by words that all must be in their text. Without scripts the page is as useful, and the
// field is not shown.

const field = document.getElementById("search");
const status = document.getElementById("found");
const entries = [...document.querySelectorAll("article, #codes-table tbody tr, #scopes-table tbody tr")]
  .map((element) => ({ element, text: element.textContent.toLowerCase() }));
const groups = [...document.querySelectorAll(".group")];

function find() {
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  let routes = 0;
  for (const { element, text } of entries) {
    element.hidden = !words.every((word) => text.includes(word));
    if (!element.hidden && element.localName === "article") routes++;
  }
  for (const group of groups) group.hidden = group.querySelector("article:not([hidden])") === null;
  status.textContent = words.length === 0 ? "" : routes === 1 ? "1 route" : `${routes} routes`;
}

field.addEventListener("input", find);
document.getElementById("search-form").hidden = false;
find();
