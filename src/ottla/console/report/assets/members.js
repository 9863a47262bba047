/**
 * Draws the members: some as tall rows with a thin line for each partition that they own, the others as heat, a pixel row or two each.
 *
 * @typedef {{row: number, y: number, height: number, slots: number, isTall: boolean}} Band  where a member is drawn, css px
 */

import { itemsOf } from "./ownership.js";
import { StopColumns } from "./pixels.js";
import { blend } from "./theme.js";

const TALL_ALL = 12;
const TALL_SOME = 7;
const BUDGET_ALL = 520;
const BUDGET_SOME = 300;
const SLOT = 10;
const TALL_MIN = 22;
const TALL_MAX = 164;
const GAP = 6;
const HEAT_TITLE = 22;
const HEAT_MAX = 220;
const inOrder = new Intl.Collator("en", { numeric: true });

/** Which partition of a member is drawn in which line: it keeps its line while it is owned. */
export function slotsOf(own, row) {
  const items = itemsOf(own.byRow, row);
  const slots = new Uint16Array(items.length);
  const freeAt = [];
  items.forEach((each, at) => {
    let slot = freeAt.findIndex((ms) => ms <= own.from[each]);
    if (slot < 0) slot = freeAt.push(0) - 1;
    freeAt[slot] = own.to[each];
    slots[at] = slot;
  });
  return { items, slots, count: Math.max(1, freeAt.length) };
}

/**
 * Where the members go, from `y` on.
 * @param {number[]} focus rows in the order in which they would be tall
 * @returns {{bands: Band[], titleY: number | null, others: number, bottom: number}}
 */
export function layOut(story, focus, slots, y) {
  const count = story.members.length;
  const tall = count <= TALL_ALL ? [...story.order] : focus.slice(0, TALL_SOME);
  const wanted = tall.map((row) => Math.min(TALL_MAX, Math.max(TALL_MIN, slots(row).count * SLOT)));
  const total = wanted.reduce((sum, each) => sum + each + GAP, 0);
  const budget = tall.length === count ? BUDGET_ALL : BUDGET_SOME;
  const shrink = Math.min(1, budget / Math.max(1, total));
  const bands = tall.map((row, at) => {
    const height = Math.max(TALL_MIN, Math.floor(wanted[at] * shrink));
    const band = { row, y, height, slots: slots(row).count, isTall: true };
    y += height + GAP;
    return band;
  });
  const others = story.order.filter((row) => !tall.includes(row)).sort((a, b) => compareNames(story, a, b));
  if (!others.length) return { bands, titleY: null, others: 0, bottom: y };
  const titleY = y;
  y += HEAT_TITLE;
  const height = Math.min(14, HEAT_MAX / others.length);
  others.forEach((row, at) => bands.push({ row, y: y + at * height, height, slots: 0, isTall: false }));
  return { bands, titleY, others: others.length, bottom: y + others.length * height + GAP };
}

function compareNames(story, a, b) {
  return inOrder.compare(story.members[a].name, story.members[b].name);
}

/** Draws all members into pixels whose top is at `top` css px and whose left is the scale's. */
export function drawMembers(pixels, { story, own, scale, bands, slots, theme, colours, ratio, top }) {
  const { packed } = theme;
  const toX = (ms) => (scale.x(ms) - scale.left) * ratio;
  const toY = (y) => Math.round((y - top) * ratio);
  const stops = eagerStops(story, scale, toX, pixels.width);
  const heat = heatColours(theme, own.mostOwned, story.topics.length > 0);
  for (const band of bands) {
    const y0 = toY(band.y);
    const y1 = Math.max(y0 + 1, toY(band.y + band.height));
    if (band.isTall) {
      pixels.fill(0, pixels.width, y0, y1, story.topics.length ? packed.panel : packed.owned);
      drawOwned(pixels, { band, own, story, scale, toX, y0, y1, colours, slots: slots(band.row), theme });
    } else {
      drawHeat(pixels, own.counts[band.row], heat, scale, toX, y0, y1);
    }
    drawAbsence(pixels, story.members[band.row].present, scale, toX, y0, y1, packed.absent);
    stops.draw(pixels, y0, y1, packed.stopped, packed.absent);
  }
  drawSilence(pixels, story, bands, scale, toX, toY, packed);
  drawTriggers(pixels, story, bands, scale, toX, toY, packed, ratio);
}

function eagerStops(story, scale, toX, width) {
  const stops = new StopColumns(width);
  const { started_ms, join_ms, sync_ms, is_eager } = story.rebalances;
  for (let at = 0; at < started_ms.length; at++) {
    const ended = started_ms[at] + (join_ms[at] ?? 0) + (sync_ms[at] ?? 0);
    if (is_eager[at] && ended >= scale.from && started_ms[at] <= scale.to) stops.add(toX(started_ms[at]), toX(ended));
  }
  return stops;
}

function heatColours(theme, most, isKnown) {
  const { paper, owned } = theme.packed;
  if (!isKnown) return [owned];
  return Uint32Array.from({ length: most + 1 }, (_, count) => (count ? blend(paper, owned, 0.3 + (0.7 * count) / most) : blend(paper, owned, 0.08)));
}

function drawOwned(pixels, { band, own, story, scale, toX, y0, y1, colours, slots, theme }) {
  const height = (y1 - y0) / slots.count;
  const gap = height >= 5 ? 1 : 0;
  const { started_ms, is_eager } = story.rebalances;
  slots.items.forEach((each, at) => {
    if (own.to[each] < scale.from || own.from[each] > scale.to) return;
    const top = y0 + Math.floor(slots.slots[at] * height);
    const bottom = Math.max(top + 1, y0 + Math.floor((slots.slots[at] + 1) * height) - gap);
    const x1 = toX(own.to[each]);
    pixels.fill(toX(own.from[each]), x1, top, bottom, colours[own.place[each]]);
    const rebalance = own.endedBy[each] >= 0 ? story.rebalanceOf.get(own.endedBy[each]) : undefined;
    if (rebalance !== undefined && is_eager[rebalance] === false) {
      const x0 = toX(started_ms[rebalance]);
      if (x0 < x1) pixels.cover(x0, x1, top, bottom, theme.packed.stopped, { isHatched: x1 - x0 >= 6, share: 0.8 });
    }
  });
}

function drawHeat(pixels, { t, count }, colours, scale, toX, y0, y1) {
  pixels.fill(0, pixels.width, y0, y1, colours[0]);
  let at = firstAfter(t, scale.from) - 1;
  for (at = Math.max(0, at); at < t.length && t[at] <= scale.to; at++) {
    const end = at + 1 < t.length ? t[at + 1] : scale.to;
    pixels.fill(toX(t[at]), toX(end), y0, y1, colours[count[at]]);
  }
}

function firstAfter(times, ms) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

function drawAbsence(pixels, present, scale, toX, y0, y1, colour) {
  let from = -Infinity;
  for (const [joined, left] of [...present, [Infinity, null]]) {
    const x0 = from === -Infinity ? 0 : toX(from);
    const x1 = joined === Infinity ? pixels.width : toX(joined);
    if (x1 - x0 >= 0.5 && x1 > 0 && x0 < pixels.width) pixels.fill(x0, x1, y0, y1, colour);
    if (left === null) return;
    from = left;
  }
}

function drawSilence(pixels, story, bands, scale, toX, toY, packed) {
  const byRow = new Map(bands.map((band) => [band.row, band]));
  for (const [row, from, to] of story.silent) {
    const band = byRow.get(row);
    if (!band || to < scale.from || from > scale.to) continue;
    const [x0, x1] = [toX(from), toX(to)];
    pixels.cover(x0, x1, toY(band.y), toY(band.y + band.height), packed.silent, { isHatched: x1 - x0 >= 6, share: 0.75 });
  }
}

/** A mark in the top third of the member that set a rebalance off. */
function drawTriggers(pixels, story, bands, scale, toX, toY, packed, ratio) {
  const byRow = new Map(bands.map((band) => [band.row, band]));
  const { started_ms, row } = story.rebalances;
  for (let at = 0; at < started_ms.length; at++) {
    const band = byRow.get(row[at]);
    if (!band || started_ms[at] < scale.from || started_ms[at] > scale.to) continue;
    const x = toX(started_ms[at]);
    const y0 = toY(band.y);
    const y1 = band.isTall ? toY(band.y + band.height / 3) : Math.max(y0 + 1, toY(band.y + band.height));
    pixels.fill(x - ratio, x + 2 * ratio, y0, y1, packed[story.verdicts[at]]);
  }
}
