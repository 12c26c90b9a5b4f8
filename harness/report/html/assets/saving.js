// Files that the page writes: the browser saves them where it saves downloads.

const LONGEST_FILE_NAME = 120;

function fileName(title) {
  return title.normalize("NFC").replace(/[^\p{L}\p{N}@.+=]+/gu, "-").slice(0, LONGEST_FILE_NAME).replace(/^[-.]+|[-.]+$/g, "");
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
  return `Saved as ${name}.`;
}
