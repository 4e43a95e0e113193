// Texts of one language, by key.

export const languages = ["en", "de"];

let texts = {};
export let language = "en";

export async function load(name) {
  language = languages.includes(name) ? name : "en";
  texts = await (await fetch(`text/${language}.json`)).json();
  document.documentElement.lang = language;
}

// t returns a text with values in place of {name}.
export function t(key, values = {}) {
  return (texts[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

// time returns a moment in UTC, as filters and days are.
export function time(text) {
  return text ? new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long", timeZone: "UTC" }).format(new Date(text)) : "";
}

export function day(text) {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeZone: "UTC" }).format(new Date(text));
}

export function number(n) {
  return new Intl.NumberFormat(language).format(n);
}

export function money(cents) {
  return dollars(cents / 100, 6);
}

// price returns an amount of pico-USD.
export function price(pico) {
  return dollars(pico / 1e12, 12);
}

function dollars(amount, digits) {
  return new Intl.NumberFormat(language, { style: "currency", currency: "USD", maximumFractionDigits: digits }).format(amount);
}

// visible returns a text in which characters that are not seen, or that change the order of others, are escaped: what a person
// reads is what is decided.
export function visible(text) {
  return text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} \n]|\ufffd/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}
