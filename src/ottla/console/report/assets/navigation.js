/**
 * Moves through a timeline: what the view shows, which rebalance and which member are chosen.
 */

import { Folding } from "./axis.js";
import { RANK } from "./bars.js";

export const VIEW_MIN_MS = 20;
const SETTLE_MS = 150;

/** What keys, pointers and buttons do. The timeline adds `layOut`, `redraw` and what is shown. */
export class Navigation {
  /** Show a range of times (ms); what is drawn follows at the next frame. */
  show(from, to) {
    this.setView(this.folding.fold(from), this.folding.fold(to));
  }

  setView(from, to) {
    const { full } = this;
    const length = Math.min(full.to - full.from, Math.max(VIEW_MIN_MS, to - from));
    const start = Math.max(full.from, Math.min(full.to - length, from + (to - from - length) / 2));
    this.view = { from: start, to: start + length };
    this.redraw();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), SETTLE_MS);
  }

  /** Once the view stands still: rank the strips again. */
  settle() {
    if (!this.showsLag) return;
    this.layOut();
    this.redraw();
  }

  showAll() {
    this.setView(this.full.from, this.full.to);
  }

  /** Zoom by a factor, around x or the middle. */
  zoom(factor, x = this.scale.left + this.scale.width / 2) {
    const share = (x - this.scale.left) / this.scale.width;
    const middle = this.view.from + share * (this.view.to - this.view.from);
    const length = (this.view.to - this.view.from) * factor;
    this.setView(middle - share * length, middle + (1 - share) * length);
  }

  /** Move the view by pixels. */
  pan(pixels) {
    const ms = pixels / this.scale.pixelsPerMs;
    this.setView(this.view.from + ms, this.view.to + ms);
  }

  choose(index) {
    if (index === this.chosen) return;
    this.chosen = index;
    if (index !== null) this.keepInView(this.story.rebalances.started_ms[index], this.story.ended_ms[index]);
    this.layOut();
    this.redraw();
    this.onChoose(index);
  }

  /** Move the view only if it does not hold the span already. */
  keepInView(from, to) {
    const [first, last] = [this.folding.fold(from), this.folding.fold(to)];
    const { view } = this;
    if (first >= view.from && last <= view.to) return;
    const length = Math.max(view.to - view.from, (last - first) * 1.5);
    this.setView((first + last - length) / 2, (first + last + length) / 2);
  }

  zoomToChosen() {
    if (this.chosen === null) return;
    const span = this.growthSpanOf(this.chosen);
    const margin = Math.max(500, (span[1] - span[0]) * 1.5);
    this.show(span[0] - margin, span[1] + margin);
  }

  growthSpanOf(at) {
    return [this.story.rebalances.started_ms[at] - (this.story.rebalances.silent_ms[at] ?? 0), this.story.ended_ms[at]];
  }

  /** Choose the rebalance before or after the chosen one, or the first in the view. */
  step(by) {
    const { started_ms } = this.story.rebalances;
    if (!started_ms.length) return;
    const first = started_ms.findIndex((ms) => ms >= this.scale.from);
    const from = this.chosen ?? (by > 0 ? Math.max(0, first) - 1 : started_ms.length);
    this.choose(Math.max(0, Math.min(started_ms.length - 1, from + by)));
  }

  nextUnplanned() {
    const { verdicts } = this.story;
    const from = this.chosen ?? -1;
    const found = verdicts.findIndex((each, at) => at > from && RANK[each] === RANK.unplanned);
    const again = found < 0 ? verdicts.indexOf("unplanned") : found;
    if (again >= 0) this.choose(again);
  }

  stepMember(by) {
    const rows = this.layout.members.bands.map((each) => each.row);
    if (!rows.length) return;
    const at = this.member === null ? (by > 0 ? -1 : rows.length) : rows.indexOf(this.member);
    this.member = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    this.redraw();
    this.element.dispatchEvent(new CustomEvent("member", { detail: this.story.members[this.member].name }));
  }

  toggleFold() {
    const { from, to } = this.scale;
    this.folding = this.folding.idle.length ? new Folding() : Folding.ofStory(this.story);
    this.full = { from: this.folding.fold(this.story.from_ms), to: this.folding.fold(this.story.to_ms) };
    this.show(from, to);
  }

  toggleLag() {
    if (!this.story.lag) return;
    this.showsLag = !this.showsLag;
    this.layOut();
    this.redraw();
  }
}
