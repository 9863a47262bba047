/**
 * Reads a story from its text: base64 of gzip of the container that docs/report.md describes (JSON, then typed arrays).
 *
 * @typedef {object} Story  The document of one group, as docs/report.md lists its fields; arrays are typed arrays.
 */

const TYPES = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array };
const HEAD = 12;
const ALIGN = 8;

/**
 * @param {string} text base64
 * @returns {Promise<Story>}
 */
export async function decode(text) {
  const buffer = await gunzip(fromBase64(text));
  const length = new DataView(buffer).getUint32(8, true);
  const story = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, HEAD, length)));
  const base = Math.ceil((HEAD + length) / ALIGN) * ALIGN;
  for (const part of [story.assignments, story.lag]) fill(part, buffer, base);
  return story;
}

function fill(part, buffer, base) {
  for (const [name, value] of Object.entries(part ?? {})) {
    if (value && value.type in TYPES) part[name] = new TYPES[value.type](buffer, base + value.at, value.count);
  }
}

function fromBase64(text) {
  const trimmed = text.trim();
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(trimmed);
  const letters = atob(trimmed);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  return bytes;
}

function gunzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
