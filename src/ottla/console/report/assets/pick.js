/**
 * Says what is at a point of the timeline: by arithmetic, for pointers, for screen readers and for tests.
 */

import { clusters } from "./bars.js";
import { ownedAt, ownerAt } from "./ownership.js";
import { lagOfCode } from "./strips.js";

/**
 * @param {import("./timeline.js").Timeline} timeline
 * @returns {{kind: string, [field: string]: unknown}} kind: overview, rebalance, member, lag, sum, axis or nothing
 */
export function pick(timeline, x, y) {
  const { layout, scale, story } = timeline;
  const at_ms = scale.ms(x);
  if (x < scale.left || x > scale.left + scale.width) return labelAt(timeline, y);
  if (y < layout.overview.y + layout.overview.height) return { kind: "overview", at_ms };
  if (y < layout.bars.y - layout.labelHeight) return { kind: "axis", at_ms };
  if (y <= layout.bars.y + layout.bars.height) return rebalanceNear(timeline, x) ?? { kind: "axis", at_ms };
  const band = layout.members.bands.find((each) => y >= each.y && y < each.y + each.height);
  if (band) return memberAt(timeline, band.row, at_ms, band, y);
  const strip = layout.strips?.rows.find((each) => y >= each.y && y < each.y + each.height);
  if (strip) return lagAt(timeline, strip.row, at_ms);
  if (layout.strips && y >= layout.strips.sumY) {
    const at = Math.floor((at_ms - story.lag.from_ms) / story.lag.step_ms);
    return { kind: "sum", at_ms, lag: story.lag.sum[at] ?? null };
  }
  return { kind: "nothing", at_ms };
}

function labelAt({ layout, story }, y) {
  const band = layout.members.bands.find((each) => y >= each.y && y < each.y + each.height);
  return band ? { kind: "member", row: band.row, name: story.members[band.row].name } : { kind: "nothing" };
}

/** The rebalance whose bar is at x, or the nearest within a few pixels; of a cluster the worst is not guessed: all are counted. */
function rebalanceNear({ story, scale }, x) {
  const cluster = clusters(story, scale).find((each) => x >= each.x0 - 8 && x <= Math.max(each.x1, scale.x(story.ended_ms[each.items[each.items.length - 1]])) + 8);
  if (!cluster) return null;
  const distance = (at) => {
    const x0 = scale.x(story.rebalances.started_ms[at]);
    const x1 = scale.x(story.ended_ms[at]);
    return x < x0 ? x0 - x : x > x1 ? x - x1 : 0;
  };
  const at = cluster.items.reduce((best, each) => (distance(each) < distance(best) ? each : best));
  return { ...describeRebalance(story, at), in_cluster: cluster.items.length };
}

/** A rebalance in a few fields. */
export function describeRebalance(story, at) {
  const { cause, generation, started_ms, planned, confidence, member_name, sentence } = story.rebalances;
  return {
    kind: "rebalance",
    index: at,
    at_ms: started_ms[at],
    cause: cause[at],
    generation: generation[at],
    planned: planned[at],
    confidence: confidence[at],
    member: member_name[at],
    verdict: story.verdicts[at],
    sentence: sentence[at],
  };
}

function memberAt({ story, own, slots }, row, at_ms, band, y) {
  const member = story.members[row];
  const owned = ownedAt(own, row, at_ms).map((place) => own.names[place]);
  const found = { kind: "member", row, name: member.name, at_ms, owned, state: stateAt(story, row, at_ms, owned) };
  if (!band.isTall) return found;
  const { items, slots: lines, count } = slots(row);
  const line = Math.floor(((y - band.y) / band.height) * count);
  const at = items.findIndex((each, index) => lines[index] === line && own.from[each] <= at_ms && at_ms < own.to[each]);
  return at < 0 ? found : { ...found, partition: own.names[own.place[items[at]]] };
}

function stateAt(story, row, ms, owned) {
  if (story.silent.some(([silent, from, to]) => silent === row && from <= ms && ms < to)) return "silent";
  const isHere = story.members[row].present.some(([joined, left]) => joined <= ms && (left === null || ms < left));
  if (!isHere) return "absent";
  const { started_ms, is_eager } = story.rebalances;
  const isStopped = started_ms.some((started, at) => is_eager[at] && started <= ms && ms < story.ended_ms[at]);
  if (isStopped) return "stopped";
  if (!story.topics.length) return "member";
  return owned.length ? "owns" : "idle";
}

function lagAt({ story, own }, row, at_ms) {
  const { lag } = story;
  const at = Math.floor((at_ms - lag.from_ms) / lag.step_ms);
  const place = lag.partitions[row];
  const owner = place < 0 ? -1 : ownerAt(own, place, at_ms);
  const code = at >= 0 && at < lag.count ? lag.codes[row * lag.count + at] : 0;
  return { kind: "lag", partition: lag.names[row], at_ms, lag: lagOfCode(code), owner: owner < 0 ? null : story.members[owner].name };
}
