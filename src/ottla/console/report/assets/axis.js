/**
 * The time axis: a scale from milliseconds to pixels that can fold idle time away, and its ticks in the browser's zone.
 */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 20, 30].map((each) => each * SECOND),
  ...[1, 2, 5, 10, 20, 30].map((each) => each * MINUTE),
  ...[1, 2, 4, 6, 12].map((each) => each * HOUR),
  ...[1, 2, 7, 14, 30, 90, 365].map((each) => each * DAY),
];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const FOLD_MIN_SHARE = 0.04;
const FOLDED_SHARE = 0.008;

/** Time with idle spans made short. Without spans it changes nothing. */
export class Folding {
  /** @param {[number, number][]} idle spans in ms, in order  @param {number} width ms that a folded span keeps */
  constructor(idle = [], width = 0) {
    this.idle = idle;
    this.width = width;
    this.saved = [];
    let saved = 0;
    for (const [from, to] of idle) {
      this.saved.push(saved);
      saved += to - from - width;
    }
  }

  /** Folded time of a time. */
  fold(ms) {
    const { idle, width } = this;
    if (!idle.length) return ms;
    let at = lastAtMost(idle, ms);
    if (at < 0) return ms;
    const [from, to] = idle[at];
    if (ms >= to) return ms - this.saved[at] - (to - from - width);
    return from - this.saved[at] + ((ms - from) / (to - from)) * width;
  }

  /** The time of a folded time. */
  unfold(folded) {
    const { idle, width } = this;
    for (let at = idle.length - 1; at >= 0; at--) {
      const [from, to] = idle[at];
      const start = from - this.saved[at];
      if (folded >= start + width) return folded + this.saved[at] + (to - from - width);
      if (folded >= start) return from + ((folded - start) / width) * (to - from);
    }
    return folded;
  }

  /** Fold the time between rebalances where it is long. */
  static ofStory(story) {
    const total = story.to_ms - story.from_ms;
    const rebalances = story.rebalances;
    const idle = [];
    let from = story.from_ms;
    const margin = total * 0.004;
    rebalances.started_ms.forEach((started, at) => {
      if (started - from > total * FOLD_MIN_SHARE) idle.push([from + (idle.length || from > story.from_ms ? margin : 0), started - margin]);
      from = Math.max(from, started + (rebalances.join_ms[at] ?? 0) + (rebalances.sync_ms[at] ?? 0));
    });
    if (story.to_ms - from > total * FOLD_MIN_SHARE) idle.push([from + margin, story.to_ms]);
    return new Folding(idle, total * FOLDED_SHARE);
  }
}

function lastAtMost(spans, ms) {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][0] <= ms) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Milliseconds to pixels, for one view. */
export class Scale {
  /** @param {Folding} folding  @param {{from: number, to: number}} view folded ms  @param {number} left  @param {number} width px */
  constructor(folding, view, left, width) {
    this.folding = folding;
    this.view = view;
    this.left = left;
    this.width = width;
    this.pixelsPerMs = width / (view.to - view.from);
    this.from = folding.unfold(view.from);
    this.to = folding.unfold(view.to);
  }

  x(ms) {
    return this.left + (this.folding.fold(ms) - this.view.from) * this.pixelsPerMs;
  }

  ms(x) {
    return this.folding.unfold(this.view.from + (x - this.left) / this.pixelsPerMs);
  }
}

/** @returns {{x: number, label: string}[]} ticks at least `gap` px apart, at round local times */
export function ticks(scale, gap = 90) {
  const wanted = gap / scale.pixelsPerMs;
  const step = STEPS.find((each) => each >= wanted) ?? STEPS[STEPS.length - 1];
  const zone = new Date(scale.from).getTimezoneOffset() * MINUTE;
  const found = [];
  let last = -Infinity;
  const count = Math.min(2000, (scale.to - scale.from) / step + 1);
  const first = Math.ceil((scale.from - zone) / step) * step + zone;
  for (let at = 0; at <= count; at++) {
    const ms = first + at * step;
    if (ms > scale.to) break;
    const x = scale.x(ms);
    if (x - last < gap * 0.8) continue;
    last = x;
    found.push({ x, label: timeLabel(ms, step) });
  }
  return found;
}

/** A local time as precise as a step needs. */
export function timeLabel(ms, step = SECOND) {
  const date = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  if (step >= DAY) return dayLabel(ms);
  let text = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (step < MINUTE) text += `:${two(date.getSeconds())}`;
  if (step < SECOND) text += `.${String(date.getMilliseconds()).padStart(3, "0")}`;
  return text;
}

/** A local day: `Nov 22`. */
export function dayLabel(ms) {
  const date = new Date(ms);
  return `${MONTHS[date.getMonth()]} ${date.getDate()}`;
}

/** A number with a comma at each thousand. */
export function grouped(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A time span as a sentence writes it. */
export function durationText(ms) {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${Math.round((ms % MINUTE) / SECOND)} s`;
  return `${Math.floor(ms / HOUR)} h ${Math.round((ms % HOUR) / MINUTE)} min`;
}
