/**
 * A rectangle of pixels that is written directly: hundreds of rows over a thousand columns, each frame.
 */

import { blend } from "./theme.js";

const HATCH = 6;

export class Pixels {
  /** @param {number} width  @param {number} height device pixels */
  constructor(width, height) {
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    this.image = new ImageData(this.width, this.height);
    this.data = new Uint32Array(this.image.data.buffer);
  }

  /** Pixels of one colour: those of the frame before if they have the size. */
  static of(before, width, height, colour) {
    const isSame = before && before.width === width && before.height === height;
    const pixels = isSame ? before : new Pixels(width, height);
    pixels.data.fill(colour);
    return pixels;
  }

  /** Fill [x0, x1) x [y0, y1); at least one column wide. */
  fill(x0, x1, y0, y1, colour) {
    const left = Math.max(0, Math.floor(x0));
    const right = Math.min(this.width, Math.max(Math.floor(x0) + 1, Math.floor(x1)));
    const bottom = Math.min(this.height, y1);
    if (left >= right) return;
    for (let y = Math.max(0, y0); y < bottom; y++) this.data.fill(colour, y * this.width + left, y * this.width + right);
  }

  /** Blend a colour over [x0, x1) x [y0, y1), as diagonal stripes where `isHatched`; pixels of the colour `except` stay. */
  cover(x0, x1, y0, y1, colour, { isHatched = false, share = 1, except = 0 } = {}) {
    const left = Math.max(0, Math.floor(x0));
    const right = Math.min(this.width, Math.max(Math.floor(x0) + 1, Math.floor(x1)));
    const bottom = Math.min(this.height, y1);
    for (let y = Math.max(0, y0); y < bottom; y++) {
      for (let at = y * this.width + left, x = left; x < right; x++, at++) {
        if (this.data[at] === except) continue;
        const onStripe = !isHatched || (x + y) % HATCH < HATCH / 2;
        if (onStripe) this.data[at] = share >= 1 ? colour : blend(this.data[at], colour, share);
      }
    }
  }
}

/** Stops of all members, per column: wide ones are hatched, narrow ones are blended by the share of the column that they take. */
export class StopColumns {
  constructor(width) {
    this.share = new Float32Array(width);
    this.isWide = new Uint8Array(width);
  }

  /** A stop from x0 to x1. */
  add(x0, x1) {
    const width = this.share.length;
    const isWide = x1 - x0 >= HATCH;
    const last = Math.min(width - 1, Math.ceil(x1) - 1);
    for (let x = Math.max(0, Math.floor(x0)); x <= last; x++) {
      const part = Math.min(x + 1, x1) - Math.max(x, x0);
      this.share[x] = Math.min(1, this.share[x] + Math.max(0.02, part));
      if (isWide && part > 0.5) this.isWide[x] = 1;
    }
  }

  /** Draw them over the rows [y0, y1). A stop never vanishes: half of its colour is the least. */
  draw(pixels, y0, y1, colour, except) {
    const { data, width } = pixels;
    const bottom = Math.min(pixels.height, y1);
    for (let x = 0; x < this.share.length; x++) {
      if (!this.share[x]) continue;
      const share = 0.5 + this.share[x] / 2;
      for (let y = Math.max(0, y0); y < bottom; y++) {
        const at = y * width + x;
        if (data[at] === except) continue;
        if (!this.isWide[x]) data[at] = blend(data[at], colour, share);
        else if ((x + y) % HATCH < HATCH / 2) data[at] = colour;
      }
    }
  }
}
