/**
 * The timeline of one group: holds the view, lays out, draws, and answers what is where.
 */

import { Folding, Scale, dayLabel, grouped, ticks } from "./axis.js";
import { drawBars, drawBursts, drawLabels, drawLines, drawOverview } from "./bars.js";
import { drawMembers, layOut, slotsOf } from "./members.js";
import { drawMarks, drawMemberText } from "./marks.js";
import { Navigation, VIEW_MIN_MS } from "./navigation.js";
import { movesOf, ownership } from "./ownership.js";
import { pick } from "./pick.js";
import { Pixels } from "./pixels.js";
import { drawStripText, drawStrips, layOutStrips, rankStrips } from "./strips.js";
import { partitionColours, readTheme } from "./theme.js";

const GUTTER = 118;
const RIGHT = 8;
const OVERVIEW = { y: 0, height: 34 };
const AXIS_Y = 52;
const LABEL = 16;
const BURST_LABEL = 16;
const BAR = 20;
const ORDINARY = 0.5;
const GROWTH_STEPS = 8;

export class Timeline extends Navigation {
  /**
   * @param {HTMLElement} element  gets two canvases
   * @param {import("./decode.js").Story} story
   * @param {{onChoose?: (index: number | null) => void}} events
   */
  constructor(element, story, { onChoose = () => {} } = {}) {
    super();
    this.element = element;
    this.story = prepare(story);
    this.own = ownership(story);
    this.onChoose = onChoose;
    this.folding = new Folding();
    this.full = { from: story.from_ms, to: Math.max(story.to_ms, story.from_ms + VIEW_MIN_MS) };
    this.view = { ...this.full };
    this.chosen = null;
    this.member = null;
    this.hover = null;
    this.showsLag = Boolean(story.lag);
    this.slotCache = new Map();
    this.slots = (row) => this.slotCache.get(row) ?? this.slotCache.set(row, slotsOf(this.own, row)).get(row);
    this.canvas = canvasOf(element);
    this.over = canvasOf(element);
    this.over.classList.add("over");
    this.drawMs = 0;
    this.refresh();
  }

  /** Read colours and size again, and draw. */
  refresh({ width = this.element.clientWidth, ratio = Math.min(3, devicePixelRatio || 1) } = {}) {
    this.theme = readTheme(this.element);
    this.colours = partitionColours(this.own, this.story.topics.length, this.theme.isDark);
    this.width = Math.max(320, width);
    this.ratio = ratio;
    this.layOut();
    this.draw();
  }

  get scale() {
    if (!this._scale) this._scale = new Scale(this.folding, this.view, GUTTER, this.width - GUTTER - RIGHT);
    return this._scale;
  }

  layOut() {
    const { story } = this;
    const hasDeployment = story.bursts.some((each) => each.is_deployment);
    const labelY = AXIS_Y + (hasDeployment ? BURST_LABEL + 8 : 0) + LABEL + 4;
    const bars = { y: labelY + 5, height: BAR };
    const members = layOut(story, this.focus(), this.slots, bars.y + BAR + 10);
    this.layout = { overview: OVERVIEW, burstY: AXIS_Y + BURST_LABEL + 4, labelY, labelHeight: LABEL + 5, bars, members };
    if (this.showsLag) {
      this.strips = rankStrips(story.lag, this.scale, this.growthSpan());
      this.layout.strips = layOutStrips(this.strips, members.bottom + 4);
    }
    this.layout.bottom = (this.layout.strips ?? members).bottom + 4;
    for (const canvas of [this.canvas, this.over]) size(canvas, this.width, this.layout.bottom, this.ratio);
  }

  /** Rows in the order in which they would be tall: who has to do with the chosen rebalance, else the most blamed. */
  focus() {
    const { story, own, chosen } = this;
    if (chosen === null) return story.order;
    const { row } = story.rebalances;
    const first = row[chosen] === null ? [] : [row[chosen]];
    const pairs = movesOf(story, own, chosen);
    const moved = pairs.flatMap(([from, to]) => [from, to]).filter((each) => each >= 0);
    return [...new Set([...first, ...moved, ...story.order])];
  }

  /** The time in which lag strips are ranked by their growth: around the chosen rebalance. */
  growthSpan() {
    if (this.chosen === null) return null;
    const { started_ms, silent_ms } = this.story.rebalances;
    const before = Math.max(silent_ms[this.chosen] ?? 0, GROWTH_STEPS * this.story.lag.step_ms);
    return [started_ms[this.chosen] - before, this.story.ended_ms[this.chosen] + this.story.lag.step_ms];
  }

  /** Draw at the next frame. */
  redraw() {
    this._scale = null;
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const began = performance.now();
    this._scale = null;
    const { story, own, theme, layout, scale, ratio } = this;
    const context = this.canvas.getContext("2d", { alpha: false });
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = theme.css.paper;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.drawPixels(context);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawAxis(context);
    const shared = { story, own, scale, theme };
    drawOverview(context, { ...shared, folding: this.folding, full: this.full, ...OVERVIEW, left: GUTTER, width: scale.width });
    if (layout.strips) drawLines(context, { ...shared, y: layout.strips.y + 26, bottom: layout.strips.bottom });
    drawBursts(context, { ...shared, y: layout.burstY });
    drawBars(context, { ...shared, ...layout.bars });
    drawLabels(context, { ...shared, y: layout.labelY });
    drawMemberText(context, { ...shared, layout, gutter: GUTTER, slots: this.slots, chosen: this.chosen, member: this.member });
    if (layout.strips) {
      const title = this.stripTitle();
      drawStripText(context, { ...shared, lag: story.lag, layout: layout.strips, gutter: GUTTER, title });
    }
    this.drawOver();
    this.drawMs = performance.now() - began;
    this.element.dispatchEvent(new CustomEvent("drawn"));
  }

  drawPixels(context) {
    const { story, own, theme, layout, scale, ratio, colours, slots } = this;
    const columns = Math.round(scale.width * ratio);
    const put = (name, top, bottom, paint) => {
      const pixels = Pixels.of(this[name], columns, Math.round((bottom - top) * ratio), theme.packed.paper);
      this[name] = pixels;
      paint(pixels);
      context.putImageData(pixels.image, Math.round(GUTTER * ratio), Math.round(top * ratio));
    };
    const { bands } = layout.members;
    if (bands.length) {
      const top = bands[0].y;
      put("memberPixels", top, layout.members.bottom, (pixels) => drawMembers(pixels, { story, own, scale, bands, slots, theme, colours, ratio, top }));
    }
    if (layout.strips) {
      const top = layout.strips.rows[0]?.y ?? layout.strips.sumY;
      put("stripPixels", top, layout.strips.sumY, (pixels) => drawStrips(pixels, { lag: story.lag, scale, layout: layout.strips, theme, ratio, top }));
    }
  }

  drawAxis(context) {
    const { theme, scale, layout } = this;
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = theme.css.faint;
    context.textAlign = "left";
    context.fillText("overview", 0, OVERVIEW.y + 21);
    context.font = "600 12px system-ui, sans-serif";
    context.fillText(dayLabel(scale.from), 0, AXIS_Y);
    context.fillText("rebalances", 0, layout.bars.y + 14);
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    for (const { x, label } of ticks(scale)) {
      context.fillStyle = theme.css.line;
      context.fillRect(Math.round(x), AXIS_Y + 4, 1, 4);
      context.fillStyle = theme.css.faint;
      if (x < this.width - 26 && x > GUTTER + 10) context.fillText(label, x, AXIS_Y);
    }
  }

  stripTitle() {
    const { of_partitions: count, names } = this.story.lag;
    const shown = this.strips.length;
    if (this.chosen !== null) return `Lag: the ${shown} partitions that grew most around this rebalance`;
    if (shown === count) return "Lag of each partition, in messages";
    const kept = names.length < count ? ` (the worst ${names.length} are in this file)` : "";
    return `Lag: the ${shown} worst of ${grouped(count)} partitions in this view${kept}`;
  }

  drawOver() {
    const context = this.over.getContext("2d");
    const { story, own, scale, theme, layout, chosen, hover } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, layout.bottom);
    drawMarks(context, { story, own, scale, theme, layout, chosen, hover, range: this.range });
  }

  /** What is at a point, in css px of the timeline. */
  at(x, y) {
    return pick(this, x, y);
  }

  /** Where something is: the centre of a rebalance's bar, of a member's row at a time, of a lag strip at a time. */
  place({ rebalance, member, partition, ms }) {
    const { layout, scale, story } = this;
    if (rebalance !== undefined) {
      const x = (scale.x(story.rebalances.started_ms[rebalance]) + scale.x(story.ended_ms[rebalance])) / 2;
      return { x, y: layout.bars.y + layout.bars.height / 2 };
    }
    const strip = layout.strips?.rows.find((each) => story.lag.names[each.row] === partition);
    const band = strip ?? layout.members.bands.find((each) => story.members[each.row].name === member);
    return band ? { x: scale.x(ms), y: band.y + band.height / 2 } : null;
  }
}

/** Columns that drawing needs again and again. */
function prepare(story) {
  const { started_ms, join_ms, sync_ms, planned, is_avoided, assignments } = story.rebalances;
  story.ended_ms = started_ms.map((ms, at) => ms + (join_ms[at] ?? 0) + (sync_ms[at] ?? 0));
  story.verdicts = planned.map((each, at) => (is_avoided[at] ? "avoided" : each === null ? "unknown" : each ? "planned" : "unplanned"));
  story.rebalanceOf = new Map();
  assignments.forEach((stored, at) => stored.forEach((each) => story.rebalanceOf.set(each, at)));
  if (story.lag) {
    Object.assign(story.lag, codeRange(story.lag.codes));
    story.lag.mostSum = story.lag.sum.reduce((most, each) => Math.max(most, each), 1);
  }
  return story;
}

/** The codes between which colours run: ordinary lag is pale. */
function codeRange(codes) {
  const counts = new Uint32Array(256);
  for (const code of codes) counts[code]++;
  let known = codes.length - counts[0];
  let mostCode = 255;
  while (mostCode > 1 && !counts[mostCode]) mostCode--;
  let lowCode = 1;
  for (known *= ORDINARY; lowCode < mostCode && known > counts[lowCode]; lowCode++) known -= counts[lowCode];
  return { lowCode: Math.max(1, Math.min(lowCode, mostCode - 30)), mostCode: Math.max(2, mostCode) };
}

function canvasOf(element) {
  const canvas = document.createElement("canvas");
  element.append(canvas);
  return canvas;
}

function size(canvas, width, height, ratio) {
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width === w && canvas.height === h) return;
  canvas.width = w;
  canvas.height = h;
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
}
