// Which words of a document are words of the query: whole words, whatever their case and common English endings.

const FUNCTION_WORDS = new Set(("a about am an and any are as at be by can do does for from has have how i in into is it its me my "
  + "not of on or our that the their there these they this those to us was we were what when where which who why will with you your").split(" "));
const WORD = /[\p{L}\p{N}]+/gu;

function stem(word) {
  const lower = word.toLowerCase();
  for (const ending of ["ings", "ing", "ies", "ed", "es", "s", "y"]) {
    if (lower.endsWith(ending) && lower.length - ending.length >= 4) return lower.slice(0, lower.length - ending.length);
  }
  return lower;
}

function queryStems(text) {
  const words = text.match(WORD) ?? [];
  return new Set(words.filter((word) => !FUNCTION_WORDS.has(word.toLowerCase()) && !/^[a-z]$/i.test(word)).map(stem));
}

// The text as nodes, with the words of the query in mark elements.
function marked(text, stems) {
  const nodes = [];
  let done = 0;
  for (const match of text.matchAll(WORD)) {
    if (!stems.has(stem(match[0]))) continue;
    nodes.push(document.createTextNode(text.slice(done, match.index)), el("mark", {}, match[0]));
    done = match.index + match[0].length;
  }
  nodes.push(document.createTextNode(text.slice(done)));
  return nodes;
}
