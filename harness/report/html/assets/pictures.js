// Pictures of the page as files: SVG with the colours and fonts of the present theme, and PNG drawn from it.

const DRAWN_PROPERTIES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity",
  "font-family", "font-size", "font-weight", "font-variant-numeric"];
const LEAST_SCALE = 2;

function addSaving(figure) {
  const svg = figure.querySelector("svg");
  const name = fileName(`${document.title} ${figure.querySelector(".scroll").getAttribute("aria-label")}`);
  const status = el("span", { role: "status", class: "status" });
  const button = (format, write) => el("button", { type: "button", onclick: async () => {
    status.textContent = await write(svg).then((blob) => save(blob, `${name}.${format.toLowerCase()}`), () => `This browser cannot write ${format}.`);
  } }, `Save ${format}`);
  figure.append(el("div", { class: "tools" }, button("SVG", svgBlob), button("PNG", pngBlob), status));
}

// A picture that needs no style sheet: each element has the values that the page gives it, and links are left out.
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const drawn = [...copy.querySelectorAll("*")];
  [...svg.querySelectorAll("*")].forEach((node, number) => {
    const style = getComputedStyle(node);
    for (const property of DRAWN_PROPERTIES) drawn[number].setAttribute(property, style.getPropertyValue(property));
    for (const attribute of ["class", ...Object.keys(node.dataset).map((key) => `data-${key}`)]) drawn[number].removeAttribute(attribute);
  });
  for (const link of copy.querySelectorAll("a")) link.replaceWith(...link.childNodes);
  const { width, height } = svg.viewBox.baseVal;
  for (const [attribute, value] of Object.entries({ xmlns: SVG, role: "img", width, height })) copy.setAttribute(attribute, value);
  copy.prepend(svgEl("rect", { width, height, fill: getComputedStyle(svg.closest("figure")).backgroundColor }));
  return copy;
}

async function svgBlob(svg) {
  return new Blob([new XMLSerializer().serializeToString(standalone(svg))], { type: "image/svg+xml" });
}

async function pngBlob(svg) {
  const scale = Math.max(window.devicePixelRatio, LEAST_SCALE);
  const { width, height } = svg.viewBox.baseVal;
  const canvas = el("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
  const image = new Image();
  // the page's policy allows pictures in data addresses only
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(await (await svgBlob(svg)).text())}`;
  await image.decode();
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob === null ? reject() : resolve(blob)), "image/png"));
}
