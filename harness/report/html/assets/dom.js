// Elements from text: nothing here ever parses markup, so no text of a collection can become any.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svgEl(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function counted(number, singular, plural = `${singular}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? singular : plural}`;
}

function signed(number, digits = 4) {
  return `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(digits)}`;
}

function change(difference) {
  if (Number.isNaN(difference)) return { sign: "", word: "not evaluated", tone: "plain" };
  if (difference < 0) return { sign: "▼", word: "worse", tone: "bad" };
  if (difference > 0) return { sign: "▲", word: "better", tone: "good" };
  return { sign: "=", word: "tied", tone: "plain" };
}
