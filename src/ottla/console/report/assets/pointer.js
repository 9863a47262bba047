/**
 * The pointer: wheel zooms at the pointer, drag pans, shift-drag chooses a range, a click chooses a rebalance, the overview moves the view.
 */

import { durationText, grouped, timeLabel } from "./axis.js";
import { make } from "./detail.js";

const CLICK_PX = 4;
const WHEEL = 0.0015;

/**
 * @param {import("./timeline.js").Timeline} timeline
 * @param {HTMLElement} tooltip
 * @param {(range: [number, number] | null) => void} onRange  sums over a range may be shown
 */
export function attach(timeline, tooltip, onRange) {
  const surface = timeline.over;
  let drag = null;
  const point = (event) => {
    const box = surface.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  surface.addEventListener(
    "wheel",
    (event) => {
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) timeline.pan(event.deltaX);
      else if (event.ctrlKey || document.activeElement === timeline.element) timeline.zoom(Math.exp(event.deltaY * WHEEL), point(event).x);
      else return;
      event.preventDefault();
    },
    { passive: false },
  );
  surface.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    timeline.element.focus({ preventScroll: true });
    const { x, y } = point(event);
    drag = { x, y, last: x, isRange: event.shiftKey, isOverview: y < timeline.layout.overview.height, moved: false };
    surface.setPointerCapture(event.pointerId);
    if (drag.isOverview) moveTo(timeline, x);
  });
  surface.addEventListener("pointermove", (event) => {
    const { x, y } = point(event);
    if (!drag) return hover(timeline, tooltip, x, y);
    if (Math.abs(x - drag.x) > CLICK_PX) drag.moved = true;
    if (drag.isOverview) moveTo(timeline, x);
    else if (drag.isRange) setRange(timeline, drag.x, x);
    else if (drag.moved) timeline.pan(drag.last - x);
    drag.last = x;
    tooltip.hidden = true;
  });
  surface.addEventListener("pointerup", (event) => {
    const { x, y } = point(event);
    const done = drag;
    drag = null;
    if (!done || done.isOverview) return;
    if (done.isRange && done.moved) return onRange(timeline.range);
    timeline.range = null;
    onRange(null);
    if (!done.moved) click(timeline, x, y);
  });
  surface.addEventListener("pointerleave", () => {
    timeline.hover = null;
    tooltip.hidden = true;
    timeline.drawOver();
  });
}

function moveTo(timeline, x) {
  const { full, scale, view } = timeline;
  const share = Math.max(0, Math.min(1, (x - scale.left) / scale.width));
  const middle = full.from + share * (full.to - full.from);
  const length = view.to - view.from;
  timeline.setView(middle - length / 2, middle + length / 2);
}

function setRange(timeline, x0, x1) {
  timeline.range = [timeline.scale.ms(Math.min(x0, x1)), timeline.scale.ms(Math.max(x0, x1))];
  timeline.drawOver();
}

function click(timeline, x, y) {
  const found = timeline.at(x, y);
  if (found.kind === "rebalance") return timeline.choose(found.index);
  const { started_ms } = timeline.story.rebalances;
  const inside = started_ms.findLastIndex?.((ms, at) => ms <= found.at_ms && found.at_ms <= timeline.story.ended_ms[at]) ?? -1;
  timeline.choose(inside >= 0 ? inside : null);
}

function hover(timeline, tooltip, x, y) {
  timeline.hover = { x, y };
  timeline.drawOver();
  const lines = linesOf(timeline.at(x, y));
  tooltip.hidden = !lines.length;
  if (!lines.length) return;
  tooltip.replaceChildren(...lines.map((line, at) => make("div", at ? "" : "first", line)));
  const left = Math.min(x + 14, timeline.width - tooltip.offsetWidth - 4);
  tooltip.style.setProperty("transform", `translate(${Math.max(0, left)}px, ${y + 16}px)`);
}

const STATES = {
  owns: "",
  idle: "owns nothing",
  member: "a member; what it owned is not known",
  stopped: "stands still: a rebalance runs",
  silent: "a member still, but silent",
  absent: "not a member",
};

/** What a tooltip says. */
function linesOf(found) {
  const time = found.at_ms === undefined ? "" : timeLabel(found.at_ms, 1);
  if (found.kind === "rebalance") {
    const more = found.in_cluster > 1 ? [`one of ${found.in_cluster} here: zoom in`] : [];
    return [`${found.cause} ${found.member ?? ""}`, found.sentence, timeLabel(found.at_ms, 1), ...more];
  }
  if (found.kind === "member" && found.owned) {
    const names = found.owned.slice(0, 6).join(", ") + (found.owned.length > 6 ? ", \u2026" : "");
    const lines = [found.partition ? `${found.name}: ${found.partition}` : found.name, STATES[found.state]];
    if (found.owned.length) lines.push(`owns ${found.owned.length}: ${names}`);
    return [...lines.filter(Boolean), time];
  }
  if (found.kind === "lag") {
    const lag = found.lag === null ? "lag not known" : `lag about ${grouped(found.lag)}`;
    return [found.partition, lag, `owner: ${found.owner ?? "no member"}`, time];
  }
  if (found.kind === "sum" && found.lag !== null) return ["sum of all partitions", grouped(found.lag), time];
  return found.kind === "axis" || found.kind === "overview" ? [time] : [];
}

/** Sums over a range: rebalances by verdict, and partition-seconds. */
export function rangePanel(story, [from, to]) {
  const inside = story.rebalances.started_ms.map((ms, at) => (ms >= from && ms <= to ? at : -1)).filter((at) => at >= 0);
  const count = (verdict) => inside.filter((at) => story.verdicts[at] === verdict).length;
  const seconds = inside.reduce((sum, at) => sum + story.rebalances.stopped_seconds[at], 0);
  const list = make("ul", "");
  for (const [verdict, label] of [["unplanned", "not planned"], ["unknown", "not known"], ["planned", "planned"], ["avoided", "avoided"]]) {
    if (count(verdict)) list.append(make("li", verdict, `${count(verdict)} ${label}`));
  }
  list.append(make("li", "", `${grouped(seconds)} partition-seconds stopped`));
  return make("div", "panel range", make("h3", "", `${timeLabel(from)} to ${timeLabel(to)}`), make("p", "quiet", durationText(to - from)), list);
}
