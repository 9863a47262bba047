/**
 * Draws what lies over and beside the pixels: names of members, partition numbers, the chosen rebalance, the crosshair, a chosen range.
 */

import { grouped } from "./axis.js";
import { ownedAt } from "./ownership.js";
import { clip } from "./strips.js";

const NUMBER_MIN = 9;

/** Names at the left, numbers of partitions where there is room, the title of the heat. */
export function drawMemberText(context, { story, own, scale, theme, layout, gutter, slots, chosen, member }) {
  const { css } = theme;
  const blamed = new Map(story.ledger.map(([row, , count]) => [row, count]));
  for (const band of layout.members.bands) {
    if (!band.isTall) continue;
    const isTrigger = chosen !== null && story.rebalances.row[chosen] === band.row;
    context.textAlign = "right";
    context.font = "600 12px system-ui, sans-serif";
    context.fillStyle = isTrigger ? css[story.verdicts[chosen]] : css.ink;
    const middle = band.y + Math.min(band.height / 2 + 2, 40);
    context.fillText(clip(context, story.members[band.row].name, gutter - 14), gutter - 8, middle - 1);
    context.font = "11px system-ui, sans-serif";
    const note = isTrigger ? "set it off" : blamed.has(band.row) ? `\u25bc ${blamed.get(band.row)}` : "";
    context.fillStyle = isTrigger ? css[story.verdicts[chosen]] : css.unplanned;
    if (note) context.fillText(note, gutter - 8, middle + 13);
    if (band.row === member) frame(context, css.chosen, gutter - 4, band.y - 1, scale.width + 8, band.height + 2);
    drawNumbers(context, { band, own, scale, slots: slots(band.row), css });
  }
  drawHeatText(context, { story, layout, css, gutter, member, scale });
}

/** The partition's number in its line, if both are large enough. */
function drawNumbers(context, { band, own, scale, slots, css }) {
  const height = band.height / slots.count;
  if (height < NUMBER_MIN) return;
  context.font = `${Math.min(10, height - 1)}px system-ui, sans-serif`;
  context.textAlign = "left";
  context.fillStyle = css["on-partition"] || "#fff";
  slots.items.forEach((each, at) => {
    const x0 = Math.max(scale.left, scale.x(own.from[each]));
    const x1 = Math.min(scale.left + scale.width, scale.x(own.to[each]));
    const name = own.names[own.place[each]];
    const text = x1 - x0 > 90 ? name : name.slice(name.lastIndexOf("-") + 1);
    if (x1 - x0 < context.measureText(text).width + 6) return;
    context.fillText(text, x0 + 3, band.y + (slots.slots[at] + 1) * height - 2);
  });
}

function drawHeatText(context, { story, layout, css, gutter, member, scale }) {
  const { titleY, others, bands } = layout.members;
  if (titleY === null) return;
  const heat = bands.filter((each) => !each.isTall);
  context.textAlign = "left";
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = css.faint;
  context.fillText(`${others === story.members.length ? "all" : "the other"} ${grouped(others)} members, by name: how many partitions each owns`, gutter, titleY + 14);
  context.textAlign = "right";
  const every = Math.max(1, Math.ceil(14 / heat[0].height));
  heat.forEach((band, at) => {
    const isEnd = at === 0 || at === heat.length - 1;
    const isChosen = band.row === member;
    const isFree = heat[0].height >= 12 || isEnd || (at % (every * 3) === 0 && heat.length - at > every);
    if (isChosen) frame(context, css.chosen, gutter - 4, band.y - 1.5, scale.width + 8, band.height + 3);
    if (!isFree && !isChosen) return;
    context.fillStyle = isChosen ? css.ink : css.faint;
    context.fillText(clip(context, story.members[band.row].name, gutter - 14), gutter - 8, band.y + band.height / 2 + 4);
  });
}

function frame(context, colour, x, y, width, height) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.strokeRect(x, y, width, height);
}

/** The chosen rebalance through all rows with what each tall member gave and got, the crosshair, the range. */
export function drawMarks(context, { story, own, scale, theme, layout, chosen, hover, range }) {
  const { css } = theme;
  if (range) {
    const [x0, x1] = range.map((ms) => scale.x(ms));
    context.fillStyle = css.chosen;
    context.globalAlpha = 0.15;
    context.fillRect(x0, layout.bars.y, x1 - x0, layout.bottom - layout.bars.y);
    context.globalAlpha = 1;
  }
  if (chosen !== null) drawChosen(context, { story, own, scale, css, layout, chosen });
  if (hover && hover.x >= scale.left) {
    context.fillStyle = css.faint;
    context.fillRect(Math.round(hover.x), layout.overview.height + 20, 1, layout.bottom - layout.overview.height - 20);
  }
}

function drawChosen(context, { story, own, scale, css, layout, chosen }) {
  const x0 = scale.x(story.rebalances.started_ms[chosen]);
  const x1 = Math.max(x0 + 2, scale.x(story.ended_ms[chosen]));
  if (x1 < scale.left || x0 > scale.left + scale.width) return;
  frame(context, css[story.verdicts[chosen]], x0 - 1.5, layout.bars.y - 3, x1 - x0 + 3, layout.bottom - layout.bars.y);
  const stored = story.rebalances.assignments[chosen];
  if (!stored.length) return;
  const at = story.assignments.at_ms[stored[stored.length - 1]];
  const before = stored[0] > 0 ? story.rebalances.started_ms[chosen] - 1 : null;
  context.font = "600 11px system-ui, sans-serif";
  for (const band of layout.members.bands) {
    if (!band.isTall) continue;
    const had = before === null ? [] : ownedAt(own, band.row, before);
    const has = ownedAt(own, band.row, at);
    const kept = new Set(had);
    const got = has.filter((each) => !kept.has(each)).length;
    const gave = had.length - (has.length - got);
    if (gave) pill(context, css, x0 - 5, band.y + band.height / 2, `\u2212${gave}`, "right");
    if (got) pill(context, css, x1 + 5, band.y + band.height / 2, `+${got}`, "left");
  }
}

function pill(context, css, x, y, text, side) {
  const width = context.measureText(text).width + 12;
  const left = side === "right" ? x - width : x;
  context.fillStyle = css.ink;
  context.beginPath();
  context.roundRect(left, y - 9, width, 18, 9);
  context.fill();
  context.fillStyle = css.paper;
  context.textAlign = "center";
  context.fillText(text, left + width / 2, y + 4);
}
