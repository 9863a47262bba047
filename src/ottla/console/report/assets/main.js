/**
 * Starts the page: a timeline for each group, drawn when it is shown; the panel beside it; keys, colours, print.
 */

import { decode } from "./decode.js";
import { detailPanel, ledgerPanel, make } from "./detail.js";
import { KEYS, listen } from "./keys.js";
import { attach, rangePanel } from "./pointer.js";
import { addRest, enliven, filter, mark, offerRest } from "./table.js";
import { topicColour } from "./theme.js";
import { Timeline } from "./timeline.js";

const PRINT_WIDTH = 1040;
const TOPICS_SHOWN = 8;

/** One group's section. */
class Section {
  constructor(element) {
    this.element = element;
    this.table = element.querySelector("table.rebalances");
    this.panel = element.querySelector(".beside");
    this.live = element.querySelector(".live");
  }

  async open() {
    if (this.timeline) return this.timeline.refresh();
    const data = document.getElementById(this.element.dataset.story);
    this.story = await decode(data.textContent);
    const holder = this.element.querySelector(".timeline");
    holder.replaceChildren();
    this.timeline = new Timeline(holder, this.story, { onChoose: (index) => this.chosen(index) });
    holder.timeline = this.timeline;
    const tooltip = make("div", "tooltip");
    tooltip.hidden = true;
    holder.append(tooltip);
    attach(this.timeline, tooltip, (range) => this.showPanel(range));
    holder.addEventListener("member", (event) => this.say(event.detail));
    if (this.table) {
      offerRest(this.table);
      enliven(this.table, (index) => this.timeline.choose(index));
      const input = this.element.querySelector(".search");
      input.hidden = false;
      input.addEventListener("input", () => filter(this.table, input.value));
    }
    this.showPanel(null);
    this.legend();
  }

  chosen(index) {
    this.showPanel(null);
    if (this.table) mark(this.table, index);
    const { glyph, sentence } = this.story.rebalances;
    this.say(index === null ? "no rebalance is chosen" : `${glyph[index]} ${sentence[index]}`);
    remember({ group: this.story.group, rebalance: index === null ? null : index + 1 });
  }

  showPanel(range) {
    const { chosen } = this.timeline;
    const parts = range ? [rangePanel(this.story, range)] : [];
    parts.push(chosen === null ? ledgerPanel(this.story) : detailPanel(this.story, this.timeline.own, chosen));
    this.panel.replaceChildren(...parts);
  }

  say(text) {
    this.live.textContent = text;
  }

  /** Colours of the topics, for the legend that stands in the page. */
  legend() {
    const { topics } = this.story;
    const list = this.element.querySelector(".legend ul");
    if (!list || topics.length < 2) return;
    for (const [at, [topic]] of topics.slice(0, TOPICS_SHOWN).entries()) {
      const swatch = make("span", "swatch topic");
      swatch.style.setProperty("--colour", topicColour(at, this.timeline.theme.isDark));
      list.append(make("li", "", swatch, topic));
    }
  }
}

/** The page: its sections, of which one is shown. */
class Page {
  constructor() {
    this.sections = [...document.querySelectorAll("section.group")].map((each) => new Section(each));
    this.chooser = document.querySelector("#group");
    this.help = document.querySelector("dialog.help");
    this.current = null;
  }

  async start() {
    const asked = remembered();
    const names = this.sections.map((each) => each.element.dataset.group);
    if (!names.length) return;
    this.chooser?.addEventListener("change", () => this.open(this.chooser.selectedIndex));
    const at = names.indexOf(asked.get("group"));
    await this.open(at < 0 ? (this.chooser?.selectedIndex ?? 0) : at);
    const rebalance = Number(asked.get("rebalance"));
    if (rebalance > 0 && rebalance <= this.current.story.rebalances.cause.length) this.current.timeline.choose(rebalance - 1);
    listen(document, () => this.current?.timeline ?? null, { help: () => this.toggleHelp(), search: () => this.search() });
    this.buttons();
    addEventListener("resize", () => this.current.timeline.refresh());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.current.timeline.refresh());
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    document.documentElement.dataset.ready = "yes";
  }

  async open(at) {
    this.sections.forEach((each, number) => {
      each.element.hidden = number !== at;
    });
    if (this.chooser) this.chooser.selectedIndex = at;
    this.current = this.sections[at];
    await this.current.open();
  }

  buttons() {
    const actions = {
      all: () => this.current.timeline.showAll(),
      unplanned: () => this.current.timeline.nextUnplanned(),
      fold: () => this.current.timeline.toggleFold(),
      theme: () => this.switchTheme(),
      help: () => this.toggleHelp(),
    };
    for (const button of document.querySelectorAll("button[data-action]")) {
      button.hidden = false;
      button.addEventListener("click", actions[button.dataset.action]);
    }
    this.help.querySelector("button").addEventListener("click", () => this.help.close());
    for (const [, shown, meaning] of KEYS) this.help.querySelector("dl").append(make("dt", "", shown), make("dd", "", meaning));
  }

  switchTheme() {
    const root = document.documentElement;
    const isDark = this.current.timeline.theme.isDark;
    root.dataset.theme = isDark ? "light" : "dark";
    this.current.timeline.refresh();
  }

  toggleHelp() {
    if (this.help.open) this.help.close();
    else this.help.showModal();
  }

  search() {
    this.current.element.querySelector(".search")?.focus();
  }

  /** Paper is light and of its own width. */
  print(isPrinting) {
    document.documentElement.classList.toggle("printing", isPrinting);
    if (isPrinting) addRest(this.current.table);
    this.current.timeline.refresh(isPrinting ? { width: PRINT_WIDTH, ratio: 2 } : {});
  }
}

/** What the address says, where there is one that may be read: not in a sandboxed frame. */
function remembered() {
  try {
    return new URLSearchParams(location.hash.slice(1));
  } catch {
    return new URLSearchParams();
  }
}

function remember(values) {
  const given = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null));
  try {
    history.replaceState(null, "", `#${given}`);
  } catch {
    // A sandboxed frame has no address of its own.
  }
}

new Page().start();
