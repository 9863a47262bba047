/**
 * Who owned which partition when: intervals made from the assignments of a story.
 *
 * @typedef {object} Ownership
 * @property {string[]} names  name of each partition, by its place
 * @property {number[]} topicOf  number of each partition's topic
 * @property {Uint16Array} row  the owner of each interval
 * @property {Uint32Array} place  its partition
 * @property {Float64Array} from  ms
 * @property {Float64Array} to  ms
 * @property {Int32Array} endedBy  the assignment that ended it, -1: none
 * @property {Index} byRow  intervals of a row, in the order of time
 * @property {Index} byPlace  intervals of a partition
 * @property {{t: number[], count: number[]}[]} counts  for each row, how many partitions it owns from `t` on
 * @property {number} mostOwned
 *
 * @typedef {{start: Uint32Array, items: Uint32Array}} Index
 */

/**
 * @param {import("./decode.js").Story} story
 * @returns {Ownership}
 */
export function ownership(story) {
  const { assignments } = story;
  const names = [];
  const topicOf = [];
  story.topics.forEach(([topic, partitions], number) => {
    for (const partition of partitions) {
      names.push(`${topic}-${partition}`);
      topicOf.push(number);
    }
  });
  const walk = new Walk(story, names.length);
  for (let at = 0; at < assignments.at_ms.length; at++) walk.take(at);
  walk.end(story.to_ms);
  const found = walk.intervals();
  return {
    names,
    topicOf,
    ...found,
    byRow: index(found.row, story.members.length),
    byPlace: index(found.place, names.length),
    counts: walk.counts,
    mostOwned: walk.mostOwned,
  };
}

/** Goes through the assignments and opens and closes intervals. */
class Walk {
  constructor(story, places) {
    const { assignments } = story;
    this.story = story;
    this.none = assignments.no_owner;
    this.owner = new Uint16Array(places).fill(this.none);
    this.open = new Int32Array(places).fill(-1);
    this.owned = new Int32Array(story.members.length + 1);
    this.counts = story.members.map(() => ({ t: [], count: [] }));
    this.mostOwned = 1;
    this.size = 0;
    this.changesRead = 0;
    const most = places + assignments.owners.length;
    this.row = new Uint16Array(most);
    this.place = new Uint32Array(most);
    this.from = new Float64Array(most);
    this.to = new Float64Array(most);
    this.endedBy = new Int32Array(most);
  }

  /** Apply one assignment. */
  take(at) {
    const { starts, is_whole, owners, places, at_ms } = this.story.assignments;
    const start = starts[at];
    const count = starts[at + 1] - start;
    const touched = new Set();
    for (let each = 0; each < count; each++) {
      const place = is_whole[at] ? each : places[this.changesRead++];
      const owner = owners[start + each];
      const before = this.owner[place];
      if (owner === before) continue;
      this.close(place, at_ms[at], at);
      this.owner[place] = owner;
      this.owned[before]--;
      this.owned[owner]++;
      touched.add(before).add(owner);
      if (owner !== this.none) this.start(place, owner, at_ms[at]);
    }
    for (const row of touched) this.note(row, at_ms[at]);
  }

  note(row, ms) {
    if (row === this.none) return;
    const { t, count } = this.counts[row];
    if (count.length && count[count.length - 1] === this.owned[row]) return;
    t.push(ms);
    count.push(this.owned[row]);
    this.mostOwned = Math.max(this.mostOwned, this.owned[row]);
  }

  start(place, owner, ms) {
    const at = this.size++;
    this.open[place] = at;
    this.row[at] = owner;
    this.place[at] = place;
    this.from[at] = ms;
    this.endedBy[at] = -1;
  }

  close(place, ms, assignment) {
    const at = this.open[place];
    if (at < 0) return;
    this.open[place] = -1;
    this.to[at] = this.whileHere(this.row[at], this.from[at], ms);
    this.endedBy[at] = assignment;
  }

  /** A member that was removed owned its partitions until then, not until the next assignment. */
  whileHere(row, from, to) {
    for (const [joined, left] of this.story.members[row].present) {
      if (left !== null && left >= from && joined <= from) return Math.min(to, left);
    }
    return to;
  }

  end(ms) {
    for (let place = 0; place < this.open.length; place++) this.close(place, ms, -1);
  }

  intervals() {
    const cut = (array) => array.subarray(0, this.size);
    return { row: cut(this.row), place: cut(this.place), from: cut(this.from), to: cut(this.to), endedBy: cut(this.endedBy) };
  }
}

/** Items by their key, in their order (a counting sort). */
function index(keys, count) {
  const start = new Uint32Array(count + 1);
  for (const key of keys) start[key + 1]++;
  for (let key = 0; key < count; key++) start[key + 1] += start[key];
  const next = start.slice();
  const items = new Uint32Array(keys.length);
  for (let at = 0; at < keys.length; at++) items[next[keys[at]]++] = at;
  return { start, items };
}

/** The items of one key. */
export function itemsOf({ start, items }, key) {
  return items.subarray(start[key], start[key + 1]);
}

/** The row that owns a partition at a time, or -1. */
export function ownerAt(own, place, ms) {
  for (const each of itemsOf(own.byPlace, place)) {
    if (own.from[each] <= ms && ms < own.to[each]) return own.row[each];
  }
  return -1;
}

/** The places that a row owns at a time. */
export function ownedAt(own, row, ms) {
  const found = [];
  for (const each of itemsOf(own.byRow, row)) {
    if (own.from[each] <= ms && ms < own.to[each]) found.push(own.place[each]);
  }
  return found.sort((a, b) => a - b);
}

/** What moved in a rebalance: [from row or -1, to row or -1, places] of each pair, the largest first. */
export function movesOf(story, own, rebalance) {
  const stored = story.rebalances.assignments[rebalance];
  if (!stored.length) return [];
  const ms = story.assignments.at_ms[stored[stored.length - 1]];
  const pairs = new Map();
  const seen = new Set();
  for (let each = 0; each < own.row.length; each++) {
    const place = own.place[each];
    if (!stored.includes(own.endedBy[each]) || seen.has(place)) continue;
    seen.add(place);
    const to = ownerAt(own, place, ms);
    const key = `${own.row[each]} ${to}`;
    if (!pairs.has(key)) pairs.set(key, [own.row[each], to, []]);
    pairs.get(key)[2].push(place);
  }
  return [...pairs.values()].sort((a, b) => b[2].length - a[2].length || a[0] - b[0] || a[1] - b[1]);
}
