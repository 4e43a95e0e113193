// Finds sections that hold words of the query, in the index that index.js declares. The order: sections that hold more of the
// words come first; words in a section's title count more than those in the page's, and these more than those in the text.

const most = { words: 8, results: 40, around: 90 };
const field = document.getElementById("words");
const found = document.getElementById("found");
const results = document.getElementById("results");
// minor are pages for those who change the code: they come after others that fit as well.
const minor = /^(decisions|deploy.fakes|contributing|house|releasing|dependencies)|(changelog|packages)[.]html/;
const entries = sections.map(([link, page, section, text]) => ({
  link, page, section, text, lower: [section, page, text].map((part) => part.toLowerCase()),
}));

function wordsOf(query) {
  return [...new Set(query.toLowerCase().split(/\s+/).filter((word) => word !== ""))].slice(0, most.words);
}

// score returns how many of the words an entry holds, and how well it fits.
function score({ link, lower: [section, page, text], section: title }, words) {
  let total = 0;
  let held = 0;
  for (const word of words) {
    const here = (section.includes(word) ? 12 : 0) + (page.includes(word) ? (title === "" ? 10 : 4) : 0) + Math.min(text.split(word, 5).length - 1, 4);
    if (here > 0) held++;
    total += here;
  }
  return { held, fit: minor.test(link) ? total / 3 : total };
}

// excerpt returns the text around the first word that it holds, with all words marked.
function excerpt({ text, lower }, words) {
  const first = Math.min(...words.map((word) => lower[2].indexOf(word)).filter((at) => at >= 0), text.length);
  const begin = first === text.length ? 0 : Math.max(0, first - most.around);
  const line = document.createElement("p");
  const piece = text.slice(begin, begin + 3 * most.around);
  const small = piece.toLowerCase();
  if (begin > 0) line.append("… ");
  let at = 0;
  while (at < piece.length) {
    const hits = words.map((word) => ({ word, from: small.indexOf(word, at) })).filter((hit) => hit.from >= 0);
    if (hits.length === 0) break;
    const hit = hits.reduce((a, b) => (b.from < a.from ? b : a));
    const mark = document.createElement("mark");
    mark.textContent = piece.slice(hit.from, hit.from + hit.word.length);
    line.append(piece.slice(at, hit.from), mark);
    at = hit.from + hit.word.length;
  }
  line.append(piece.slice(at), begin + piece.length < text.length ? " …" : "");
  return line;
}

function itemOf(entry, words) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = entry.link;
  link.textContent = entry.section === "" ? entry.page : `${entry.page}: ${entry.section}`;
  item.append(link, excerpt(entry, words));
  return item;
}

// summary says how many sections hold all words, and how many hold some of them.
function summary(hits, words) {
  const all = hits.filter((hit) => hit.held === words.length).length;
  const some = hits.length - all;
  const first = hits.length > most.results ? `, the first ${most.results} are shown` : "";
  if (words.length === 1) return `${all} found${first}`;
  return `${all} found with all words${some > 0 ? `, ${some} with some of them` : ""}${first}`;
}

function find() {
  const words = wordsOf(field.value);
  const hits = entries.map((entry) => ({ entry, ...score(entry, words) })).filter((hit) => hit.held > 0)
    .sort((a, b) => b.held - a.held || b.fit - a.fit);
  results.replaceChildren(...hits.slice(0, most.results).map((hit) => itemOf(hit.entry, words)));
  found.textContent = words.length === 0 ? "Type words that are in what you look for." : summary(hits, words);
}

field.value = (new URLSearchParams(location.search).get("q") ?? "").slice(0, 100);
field.addEventListener("input", find);
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  history.replaceState(null, "", `?q=${encodeURIComponent(field.value)}`);
  find();
});
find();
field.focus();
