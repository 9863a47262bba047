/**
 * Draws the lag: a heat strip a partition, log scale, one for all; owners' names where they change; the sum of all partitions below.
 */

import { itemsOf } from "./ownership.js";

const STRIPS = 12;
const STRIP = 15;
const TITLE = 26;
const SUM = 46;
const GAP = 8;
const LABEL_MIN = 34;
const LABEL_LONG = 90;
const TICK_MIN = 3;
const RAMP = 110;

/** The rows of `lag` that are shown: those with the greatest lag in the view, or those that grew most in a rebalance. */
export function rankStrips(lag, scale, span) {
  const first = Math.max(0, Math.floor(((span ? span[0] : scale.from) - lag.from_ms) / lag.step_ms));
  const last = Math.min(lag.count - 1, Math.ceil(((span ? span[1] : scale.to) - lag.from_ms) / lag.step_ms));
  const scores = lag.names.map((_, row) => {
    const codes = lag.codes.subarray(row * lag.count + first, row * lag.count + last + 1);
    let most = 0;
    for (const code of codes) if (code > most) most = code;
    return span ? most - (codes[0] ?? 0) + most / 1000 : most;
  });
  const rows = lag.names.map((_, row) => row);
  return rows.sort((a, b) => scores[b] - scores[a] || a - b).slice(0, STRIPS);
}

/** @returns {{y: number, rows: {row: number, y: number, height: number}[], sumY: number, sumHeight: number, bottom: number}} */
export function layOutStrips(strips, y) {
  const rows = strips.map((row, at) => ({ row, y: y + TITLE + at * STRIP, height: STRIP - 1 }));
  const sumY = y + TITLE + strips.length * STRIP + GAP;
  return { y, rows, sumY, sumHeight: SUM, bottom: sumY + SUM };
}

/** The strips as pixels. */
export function drawStrips(pixels, { lag, scale, layout, theme, ratio, top }) {
  const columns = sampleColumns(lag, scale, pixels.width, ratio);
  for (const { row, y, height } of layout.rows) {
    const y0 = Math.round((y - top) * ratio);
    const y1 = Math.round((y + height - top) * ratio);
    const base = row * lag.count;
    for (let x = 0; x < pixels.width; x++) {
      const first = columns[2 * x];
      if (first < 0) continue;
      let code = 0;
      for (let at = first; at <= columns[2 * x + 1]; at++) code = Math.max(code, lag.codes[base + at]);
      if (!code) continue;
      const colour = theme.lag[Math.max(0, Math.round(((code - lag.lowCode) / (lag.mostCode - lag.lowCode)) * 255))];
      for (let line = y0; line < y1; line++) pixels.data[line * pixels.width + x] = colour;
    }
  }
}

/** For each column the first and the last sample that it shows; -1: none. */
function sampleColumns(lag, scale, width, ratio) {
  const columns = new Int32Array(2 * width);
  let start = Math.floor((scale.ms(scale.left) - lag.from_ms) / lag.step_ms);
  for (let x = 0; x < width; x++) {
    const end = Math.floor((scale.ms(scale.left + (x + 1) / ratio) - lag.from_ms) / lag.step_ms);
    const isKnown = end >= 0 && start < lag.count;
    columns[2 * x] = isKnown ? Math.max(0, Math.min(start, lag.count - 1)) : -1;
    columns[2 * x + 1] = Math.min(end, lag.count - 1);
    start = end;
  }
  return columns;
}

/** Names, owners and the sum line. */
export function drawStripText(context, { story, own, lag, scale, layout, theme, gutter, title }) {
  const { css } = theme;
  context.textAlign = "left";
  context.fillStyle = css.ink;
  context.font = "600 12px system-ui, sans-serif";
  context.fillText(title, 0, layout.y + 15);
  drawRamp(context, { lag, scale, theme, y: layout.y + 6 });
  for (const { row, y, height } of layout.rows) {
    context.textAlign = "right";
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = css.ink;
    context.fillText(clip(context, lag.names[row], gutter - 10), gutter - 8, y + height - 3);
    if (lag.partitions[row] >= 0) drawOwners(context, { story, own, place: lag.partitions[row], scale, y, height, theme });
  }
  drawSum(context, { lag, scale, layout, theme, gutter });
}

/** What the colours mean. */
function drawRamp(context, { lag, scale, theme, y }) {
  const right = scale.left + scale.width;
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = theme.css.faint;
  context.textAlign = "right";
  const most = short(lagOfCode(lag.mostCode));
  context.fillText(most, right, y + 9);
  const end = right - context.measureText(most).width - 6;
  for (let at = 0; at < RAMP; at++) {
    const packed = theme.lag[Math.round((at / (RAMP - 1)) * 255)];
    context.fillStyle = `rgb(${packed & 255} ${(packed >> 8) & 255} ${(packed >> 16) & 255})`;
    context.fillRect(end - RAMP + at, y, 1, 10);
  }
  context.fillStyle = theme.css.faint;
  context.fillText(`messages: up to ${short(lagOfCode(lag.lowCode))}`, end - RAMP - 6, y + 9);
}

/** The owner's name where there is room for it. */
function drawOwners(context, { story, own, place, scale, y, height, theme }) {
  context.textAlign = "left";
  context.font = "10.5px system-ui, sans-serif";
  let reached = -Infinity;
  let shown = -1;
  let ticked = -Infinity;
  for (const each of itemsOf(own.byPlace, place)) {
    if (own.to[each] < scale.from || own.from[each] > scale.to) continue;
    const x0 = Math.max(scale.left, scale.x(own.from[each]));
    const x1 = Math.min(scale.left + scale.width, scale.x(own.to[each]));
    if (own.from[each] > scale.from && x0 - ticked >= TICK_MIN) {
      ticked = x0;
      context.fillStyle = theme.css.ink;
      context.fillRect(x0, y, 1, height);
    }
    const left = Math.max(x0, reached);
    if (own.row[each] === shown || x1 - left < LABEL_MIN) continue;
    const name = story.members[own.row[each]].name;
    const room = x1 - left - 8;
    const width = context.measureText(name).width;
    if (width > room && room < LABEL_LONG) continue;
    shown = own.row[each];
    context.fillStyle = theme.css.paper;
    context.fillRect(left + 2, y + 1, Math.min(width, room) + 5, height - 2);
    context.fillStyle = theme.css.ink;
    context.fillText(clip(context, name, room), left + 4, y + height - 3.5);
    reached = left + Math.min(width, room) + 12;
  }
}

function drawSum(context, { lag, scale, layout, theme, gutter }) {
  const { css } = theme;
  const bottom = layout.sumY + layout.sumHeight - 4;
  const height = layout.sumHeight - 8;
  const most = Math.max(1, lag.mostSum);
  context.textAlign = "right";
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = css.ink;
  context.fillText("sum of all", gutter - 8, bottom - height / 2);
  context.fillStyle = css.faint;
  context.fillText(`up to ${short(most)}`, gutter - 8, bottom - height / 2 + 14);
  context.save();
  context.beginPath();
  context.rect(scale.left, layout.sumY, scale.width, layout.sumHeight);
  context.clip();
  context.strokeStyle = css["lag-middle"];
  context.lineWidth = 1.5;
  context.beginPath();
  const first = Math.max(0, Math.floor((scale.from - lag.from_ms) / lag.step_ms));
  const last = Math.min(lag.count - 1, Math.ceil((scale.to - lag.from_ms) / lag.step_ms));
  const stride = Math.max(1, Math.floor((last - first) / (2 * scale.width)));
  for (let at = first; at <= last; at += stride) {
    let value = 0;
    for (let each = at; each < Math.min(at + stride, last + 1); each++) value = Math.max(value, lag.sum[each]);
    context.lineTo(scale.x(lag.from_ms + at * lag.step_ms), bottom - (value / most) * height);
  }
  context.stroke();
  context.restore();
}

/** A number with at most three digits and a letter. */
export function short(value) {
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= unit) return `${(value / unit).toFixed(value / unit < 10 ? 1 : 0)} ${letter}`;
  }
  return String(Math.round(value));
}

/** The number of messages behind a code; null: not known. */
export function lagOfCode(code) {
  if (!code) return null;
  return code === 1 ? 0 : Math.round(2 ** ((code - 2) / 10));
}

/** A text cut to a width, with an ellipsis. */
export function clip(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}\u2026`).width > width) length--;
  return `${text.slice(0, length)}\u2026`;
}
