// Reads back what pack.py wrote: base64 of gzip of a header in JSON and columns of numbers.

const ARRAYS = {
  int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array,
};

async function unpack(text) {
  const packed = atob(text);
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at += 1) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Columns(await new Response(stream).arrayBuffer());
}

class Columns {
  constructor(buffer) {
    const length = new DataView(buffer).getUint32(0, true);
    this.buffer = buffer;
    this.start = 4 + length;
    this.header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  }

  has(name) {
    return name in this.header.sections;
  }

  numbers(name) {
    const [type, offset, size] = this.header.sections[name];
    return new ARRAYS[type](this.buffer, this.start + offset, size);
  }

  strings(name) {
    return new Strings(this.numbers(`${name}.ends`), this.numbers(`${name}.bytes`));
  }
}

// Strings that are decoded when they are asked for.
class Strings {
  constructor(ends, bytes) {
    this.ends = ends;
    this.bytes = bytes;
    this.decoder = new TextDecoder();
  }

  get length() {
    return this.ends.length;
  }

  get(at) {
    const start = at === 0 ? 0 : this.ends[at - 1];
    return this.decoder.decode(this.bytes.subarray(start, this.ends[at]));
  }
}
