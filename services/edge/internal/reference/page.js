// Finds routes, types of events, scopes and error codes by words that all must be in their text. While there are words, the
// page shows what they find, without contents and introduction. Without scripts the page is as useful, and the field is not
// shown.

const field = document.getElementById("search");
const status = document.getElementById("found");
const kinds = ":is(article, #codes-table tbody tr, #scopes-table tbody tr)";
const entries = [...document.querySelectorAll(kinds)]
  .map((element) => ({ element, text: element.textContent.toLowerCase() }));
const groups = [...document.querySelectorAll("main > section, .group")];
const contents = document.querySelector("nav");
const documents = document.getElementById("search-documents");

function find() {
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  let found = 0;
  for (const { element, text } of entries) {
    element.hidden = !words.every((word) => text.includes(word));
    if (!element.hidden) found++;
  }
  const searching = contents.hidden = words.length > 0;
  for (const group of groups) group.hidden = searching && group.querySelector(`${kinds}:not([hidden])`) === null;
  documents.search = searching ? new URLSearchParams({ q: field.value }) : "";
  status.textContent = words.length === 0 ? "" : `${found} found`;
}

field.addEventListener("input", find);
document.getElementById("search-form").hidden = false;
find();
