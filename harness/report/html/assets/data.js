// Reads data that stands in the page: JSON, or base64 of its gzip.

async function readData(id) {
  const { type, textContent } = document.getElementById(id);
  if (type === "application/json") return JSON.parse(textContent);
  const packed = atob(textContent);
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at += 1) bytes[at] = packed.charCodeAt(at);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
