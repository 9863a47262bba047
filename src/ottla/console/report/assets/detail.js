/**
 * The panel beside the timeline: who stopped whom, or everything about the chosen rebalance. Texts are text nodes, whoever wrote them.
 */

import { dayLabel, durationText, grouped, timeLabel } from "./axis.js";
import { movesOf } from "./ownership.js";

const PAIRS = 8;
const LEDGER = 8;
const PLANNED = { true: "planned", false: "not planned", null: "planned or not: not known" };

/** An element with a class, texts and children. */
export function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((each) => each !== null && each !== undefined && each !== ""));
  return element;
}

/** The panel without a chosen rebalance: the ledger of unplanned ones. */
export function ledgerPanel(story) {
  const panel = make("div", "panel ledger", make("h3", "", "Who stopped whom"));
  if (!story.ledger.length) {
    panel.append(make("p", "quiet", "No member set off an unplanned rebalance."));
    return panel;
  }
  panel.append(make("p", "quiet", "partition-seconds that stood still in rebalances that were not planned"));
  const most = Math.max(1, ...story.ledger.map((each) => each[3]));
  const list = make("ol", "blames");
  const given = new Set();
  for (const [, name, count, seconds, advice] of story.ledger.slice(0, LEDGER)) {
    const bar = make("span", "bar");
    bar.style.setProperty("--share", `${(100 * seconds) / most}%`);
    list.append(
      make("li", "", make("b", "name", name), bar, make("span", "number", grouped(seconds)), make("span", "unplanned", `\u25bc ${count}`)),
    );
    if (advice && !given.has(advice)) list.append(make("li", "advice", advice));
    given.add(advice);
  }
  panel.append(list);
  const rest = story.ledger.slice(LEDGER);
  if (rest.length) {
    const sum = grouped(rest.reduce((total, each) => total + each[3], 0));
    panel.append(make("p", "quiet", `${rest.length} others together: ${sum}`));
  }
  return panel;
}

/** Everything about one rebalance. */
export function detailPanel(story, own, at) {
  const row = Object.fromEntries(Object.entries(story.rebalances).map(([name, column]) => [name, column[at]]));
  const verdict = story.verdicts[at];
  const panel = make("div", `panel detail ${verdict}`);
  panel.append(make("h3", verdict, `${row.glyph} ${row.cause}`), make("p", "quiet when", when(row, story.ended_ms[at])));
  panel.append(make("p", "badges", badge(verdict, row.is_refused ? "refused" : row.is_avoided ? "avoided" : PLANNED[row.planned]), badge("", `confidence: ${row.confidence}`), avoidable(row)));
  panel.append(make("p", "sentence", row.sentence));
  panel.append(...cost(row));
  if (!row.is_avoided) panel.append(...timetable(row));
  if (row.candidates.length > 1) panel.append(section("It may also be", row.candidates.filter((each) => each !== row.cause)));
  if (row.sharper) panel.append(make("p", "quiet", `What would tell: ${row.sharper}`));
  if (row.advice.length) panel.append(section("What would have avoided it", row.advice, "advice"));
  panel.append(...moves(story, own, row, at));
  if (row.evidence.length) panel.append(section("Evidence", row.evidence));
  return panel;
}

function when(row, ended) {
  const ms = row.started_ms;
  const generation = row.generation === null ? "" : ` \u00b7 generation ${row.generation}`;
  const members = row.members_before === null ? "" : ` \u00b7 members ${row.members_before} \u2192 ${row.members_after ?? "?"}`;
  const text = make("time", "", `${dayLabel(ms)} ${timeLabel(ms, 1)}`);
  text.dateTime = new Date(ms).toISOString();
  text.title = `${text.dateTime} (UTC) to ${new Date(ended).toISOString()}`;
  return make("span", "", text, generation, members);
}

function badge(className, text) {
  return make("span", `badge ${className}`, text);
}

function avoidable(row) {
  if (row.avoidable === null || row.is_avoided) return null;
  return badge("", row.avoidable ? "avoidable" : "not avoidable");
}

function cost(row) {
  if (!row.stopped || !row.stopped_ms) return [];
  const who = row.member_name ?? "the rebalance";
  const line = make("p", "cost", chip("who", who), " stopped ", chip("what", `${grouped(row.stopped)} partition${row.stopped === 1 ? "" : "s"}`));
  line.append(" for ", chip("what", durationText(row.stopped_ms)));
  const parts = [`${row.stopped_seconds.toFixed(row.stopped_seconds < 10 ? 1 : 0)} partition-seconds`];
  if (row.messages_in !== null) parts.push(`${grouped(row.messages_in)} messages came in meanwhile`);
  return [line, make("p", "quiet", parts.join(" \u00b7 "))];
}

function chip(className, text) {
  return make("span", `chip ${className}`, text);
}

/** A bar of the phases: silent, waiting for joins, assigning. */
function timetable(row) {
  const phases = [
    ["silent", row.silent_ms],
    ["join", row.join_ms],
    ["sync", row.sync_ms],
  ].filter(([, ms]) => ms);
  const total = phases.reduce((sum, [, ms]) => sum + ms, 0);
  if (!total) return [];
  const bar = make("div", "timetable");
  for (const [name, ms] of phases) {
    const part = make("span", name);
    part.style.setProperty("--share", `${(100 * ms) / total}%`);
    bar.append(part);
  }
  return [bar, make("p", "quiet", phases.map(([name, ms]) => `${name} ${durationText(ms)}`).join(" \u00b7 "))];
}

function section(title, texts, className = "") {
  return make("div", `part ${className}`, make("h4", "", title), make("ul", "", ...texts.map((each) => make("li", "", each))));
}

function moves(story, own, row, at) {
  if (!row.assignments.length) return [];
  const pairs = movesOf(story, own, at).filter(([from, to]) => from !== to);
  const count = pairs.reduce((sum, each) => sum + each[2].length, 0);
  if (!count) return row.new ? [make("h4", "", `${row.new} partitions are new; none moved`)] : [make("h4", "", "No partition moved")];
  const name = (each) => (each < 0 ? "no member" : story.members[each].name);
  const list = make("table", "moves");
  for (const [from, to, places] of pairs.slice(0, PAIRS)) {
    const cells = [name(from), "\u2192", name(to), String(places.length)].map((each) => make("td", "", each));
    const line = make("tr", "", ...cells);
    line.title = places.slice(0, 40).map((each) => own.names[each]).join(", ");
    list.append(line);
  }
  const rest = pairs.length > PAIRS ? [make("p", "quiet", `and ${pairs.length - PAIRS} more pairs`)] : [];
  return [make("h4", "", `${grouped(count)} of ${grouped(own.names.length)} partitions changed hands`), list, ...rest];
}
