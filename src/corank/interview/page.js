// The page of `corank ask`, also the widget in a notebook (anywidget's contract). It talks with Python by messages:
// `model.send({ action, … })`, and replies come as the event "msg:custom". Texts of items are only ever text nodes.

const POSITIONS = ["first", "second", "third", "fourth"];
const SOON = 350, LATER = 4000;  // milliseconds until news are asked for: while the model learns, and otherwise
const NOBODY = "nobody named";

// ---- elements

/** An element with attributes, listeners (onclick, …) and children; children that are strings become text nodes. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== ""));
  return element;
}

const button = (kind, onclick, ...children) => h("button", { type: "button", class: kind, onclick }, ...children);
const key = (name) => h("kbd", {}, name);
const terms = (entries) => h("dl", {}, entries.map(([name, text, long]) =>
  h("div", { class: long ? "long" : null }, h("dt", {}, name), h("dd", {}, text))));

// ---- words and numbers

const percent = (share) => `${Math.round(100 * share)} %`;
const counted = (number) => number.toLocaleString("en");
const plural = (number, noun) => `${counted(number)} ${noun}${number === 1 ? "" : "s"}`;
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toPrecision(2)}`;
const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// ---- the page

/** Shows an interview in `el`; keys are heard on `keys`. Returns a function that ends it. */
export function mount(model, el, keys) {
  const state = {
    about: null,  // what stays the same: kind, heading, number of items, …
    question: undefined,  // the open question; null where nothing is left to ask
    news: null,  // the ranking and how settled it is
    answers: 0,
    skipped: 0,
    best: null,  // position chosen as the best, while the worst is not
    busy: false,  // an answer is on its way
    done: false,  // the end is shown
    pair: [],  // rows of ranked items that are to be explained
    error: "",
  };

  const count = h("span", { class: "count" });
  const doneButton = button("quiet", () => setDone(!state.done), "Finish");
  const helpButton = button("quiet", () => help.showModal(), "?");
  helpButton.setAttribute("aria-label", "Keys");
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const heading = h("h1", { tabindex: "-1" }, "…");
  const hint = h("p", { class: "hint" });
  const cards = h("div", { class: "cards" });
  const actions = h("div", { class: "actions", role: "group", "aria-label": "Answer" });
  const spoken = h("p", { class: "spoken", role: "status", "aria-live": "polite" });
  const settled = h("section", { class: "settled", "aria-label": "How settled the order is" });
  const rankingHead = h("h2", {}, "Ranking");
  const rankingHint = h("p", { class: "hint" });
  const why = h("section", { class: "why", "aria-live": "polite", hidden: true });
  const list = h("ol", { class: "ranking" });
  const people = h("section", { class: "people" });
  const help = h("dialog", { class: "help", "aria-label": "Keys" });

  const head = h("header", {}, h("span", { class: "brand" }, "corank"), count, doneButton, helpButton);
  const asked = h("div", { class: "asked" }, heading, hint);
  const interview = h("div", { class: "interview" }, head, notice, asked, cards, actions, spoken);
  const panel = h("aside", { class: "panel", "aria-label": "Ranking so far" });
  panel.append(settled, rankingHead, rankingHint, why, list, people);
  el.classList.add("corank-ask");
  el.dataset.lmSuppressShortcuts = "true";  // keys are for the page, not for the notebook around it
  if (keys === el) el.tabIndex = 0;
  el.replaceChildren(h("div", { class: "frame" }, interview, panel), help);

  // -- messages

  function hear(message) {
    if (message.about) {
      state.about = message.about;
      buildActions();
      buildHelp();
    }
    countAnswers(message);
    if (message.news) {
      state.news = message.news;
      countAnswers(message.news);
      showPanel();
    }
    if ("question" in message) {
      state.busy = state.done = false;
      state.best = null;
      state.question = message.question;
      showQuestion();
    }
    if (message.why) showWhy(message.why);
    if (message.question || message.why) state.error = "";
    if (message.error) state.error = message.error;
    if ((message.error || message.lost) && !why.hidden && !why.querySelector("h3")) setPair([]);
    if (message.error || message.lost || message.note) state.busy = false;
    complain(message.lost ? lostSentence() : state.error || state.news?.problem || "");
    if (message.note) say(hint.textContent = message.note);
    showCount();
  }

  function countAnswers(message) {
    if (message.answers !== undefined) [state.answers, state.skipped] = [message.answers, message.skipped];
  }

  function lostSentence() {
    const place = state.about?.place ? ` in ${state.about.place}` : "";
    const remedy = "start the same command again and open its new address";
    return `corank does not answer any more. What you answered is safe${place}: ${remedy}.`;
  }

  function complain(text) {
    if (notice.textContent !== text) notice.textContent = text;
    notice.hidden = !text;
  }

  function say(text) {
    spoken.textContent = text;
  }

  function showCount() {
    const now = state.news?.settled;
    const by = state.about?.person ? ` by ${state.about.person}` : "";
    const left = now?.enough ? " · you can stop" : now?.more ? ` · ~${counted(now.more)} more` : "";
    const skipped = state.skipped ? `, ${state.skipped} skipped` : "";
    count.textContent = plural(state.answers, "answer") + skipped + by + left;
  }

  // -- answers

  function answer(word, more = {}) {
    if (state.busy || !state.question || state.done) return;
    state.busy = true;
    model.send({ action: "answer", number: state.question.number, answer: word, ...more });
  }

  /** A card is chosen by click or key: the better one, or first the best and then the worst. */
  function choose(at) {
    if (state.busy || !state.question || at >= state.question.cards.length) return;
    if (state.about.kind === "compare") {
      answer(POSITIONS[at]);
    } else if (state.best === null || state.best === at) {
      state.best = state.best === null ? at : null;
      showChoice();
    } else {
      answer(POSITIONS[state.best], { worst: POSITIONS[at] });
    }
  }

  function undo() {
    if (state.busy) return;
    if (state.best !== null) {
      choose(state.best);
      return;
    }
    state.busy = true;
    model.send({ action: "undo" });
  }

  // -- the question

  function cardOf(item, at) {
    const isChoice = state.about.kind !== "score";
    const number = isChoice ? h("span", { class: "number", "aria-hidden": "true" }, String(at + 1)) : null;
    const label = isChoice ? `${at + 1}: ${item.title}` : item.title;
    const card = h("article", { class: isChoice ? "card choice" : "card", "aria-label": label },
      h("h2", {}, number, h("span", {}, item.title), h("span", { class: "mark" })),
      item.pictures.map((src) => h("img", { src, alt: `Picture of ${item.title}`, referrerpolicy: "no-referrer" })),
      item.fields.length ? terms(item.fields) : null,
      item.more.length ? h("details", {}, h("summary", {}, `${item.more.length} more`), terms(item.more)) : null);
    if (isChoice) {
      card.addEventListener("click", (event) => {
        const isReading = event.target.closest("details") || String(getSelection());
        if (!isReading) choose(at);
      });
    }
    return card;
  }

  function showQuestion() {
    const { question, about } = state;
    const isEnd = question === null || state.done;
    actions.hidden = isEnd;
    doneButton.hidden = question === null;
    doneButton.textContent = state.done ? "Go on" : "Finish";
    cards.className = `cards ${isEnd ? "finished" : about.kind}`;
    el.scrollTop = cards.scrollTop = 0;
    if (isEnd) {
      heading.textContent = question === null ? "Nothing is left to ask." : "Thank you.";
      hint.textContent = "";
      cards.replaceChildren(theEnd());
      say(heading.textContent);
      return;
    }
    cards.replaceChildren(...question.cards.map(cardOf));
    actions.querySelectorAll(".position").forEach((choice, at) => { choice.hidden = at >= question.cards.length; });
    actions.querySelector("form")?.reset();
    showChoice();
    const names = question.cards.map((item) => item.title);
    say(`${heading.textContent} ${names.join(names.length === 2 ? " or " : ", ")}`);
    const isElsewhere = [actions, panel].some((place) => place.contains(document.activeElement));
    if (keys === document && !isElsewhere) heading.focus({ preventScroll: true });
  }

  /** What is chosen so far, in the hint, on cards and on buttons. */
  function showChoice() {
    const { about, best } = state;
    const isBestWorst = about.kind === "best-worst";
    heading.textContent = about.heading;
    hint.textContent = !isBestWorst ? "" : best === null ? "First choose the best." : "Now choose the worst.";
    [...cards.children].forEach((card, at) => {
      card.classList.toggle("best", at === best);
      card.querySelector(".mark").textContent = at === best ? "best" : "";
    });
    actions.querySelectorAll(".position").forEach((choice, at) => {
      const open = best === null ? "is best" : "is worst";
      choice.querySelector(".word").textContent = !isBestWorst ? "is better" : at === best ? "is best ✓" : open;
      choice.classList.toggle("pressed", at === best);
    });
  }

  function setDone(done) {
    state.done = done;
    showQuestion();
    heading.focus();
  }

  /** What came out, and what to do with it. */
  function theEnd() {
    const { about, news } = state;
    const first = news?.ranking?.items.slice(0, 10) ?? [];
    const copy = (text) => async (event) => {
      await navigator.clipboard?.writeText(text);
      event.target.textContent = "Copied";
    };
    const file = { href: "ranking.csv", download: "ranking.csv" };
    return h("div", { class: "finish" },
      first.length ? h("section", {},
        h("h2", {}, `The first ${first.length}`),
        h("ol", {}, first.map((item) => h("li", {}, item.name)))) : null,
      h("section", {},
        h("h2", {}, "What next"),
        about.place ? h("p", {}, `All answers are in ${about.place}. The same command continues from there.`) : null,
        about.place ? h("p", {}, "You can close this page. Ctrl-C in the terminal ends corank.") : null,
        about.download && first.length ? h("p", {}, h("a", file, "Download the ranking (CSV)")) : null,
        about.commands.map((line) =>
          h("div", { class: "command" }, h("code", {}, line), button("quiet", copy(line), "Copy")))));
  }

  // -- buttons, in fixed places

  function buildActions() {
    const kind = state.about.kind;
    const press = (act) => (event) => {
      if (event.detail > 0) heading.focus({ preventScroll: true });  // a click: Space must not press the button again
      act();
    };
    const position = (at) => button("strong position", press(() => choose(at)),
      kind === "compare" && at === 0 ? key("←") : null,
      `${at + 1} `, h("span", { class: "word" }),
      kind === "compare" && at === 1 ? key("→") : null);
    const tie = button("tie", press(() => answer("tie")), "Tie", key("T"));
    const skip = button("skip", press(() => answer("skip")), "Skip", key("S"));
    const back = button("undo", press(undo), "Undo", key("U"));
    const n = { compare: 2, "best-worst": 4 }[kind];
    actions.className = `actions ${kind}`;
    if (kind === "score") actions.replaceChildren(scoreForm(), skip, back);
    else actions.replaceChildren(...POSITIONS.slice(0, n).map((_, at) => position(at)), tie, skip, back);
  }

  /** A number, typed or slid. */
  function scoreForm() {
    const number = h("input", { type: "number", step: "any", "aria-label": "Score", placeholder: "number", required: true });
    const slider = h("input", { type: "range", max: "10", step: "0.5", "aria-label": "Score from 0 to 10" });
    const submit = (event) => {
      event.preventDefault();
      answer("score", { score: Number(number.value) });
    };
    const form = h("form", { onsubmit: submit }, slider, number, h("button", { class: "strong" }, "Save", key("Enter")));
    slider.addEventListener("input", () => { number.value = slider.value; });
    slider.addEventListener("keydown", (event) => { if (event.key === "Enter") form.requestSubmit(); });
    number.addEventListener("input", () => { if (number.value !== "") slider.value = number.value; });
    return form;
  }

  function buildHelp() {
    const lines = {
      compare: [["← or 1", "the first is better"], ["→ or 2", "the second is better"], ["↓ or T", "equally good"]],
      "best-worst": [["1 to 4", "the best, then the worst"], ["Esc", "another best"], ["T", "all are equally good"]],
      score: [["0 to 9", "type a score"], ["Enter", "save it"]],
    }[state.about.kind];
    const others = [["S or Space", "skip"], ["U or Backspace", "undo"], ["?", "these keys"]];
    const close = h("form", { method: "dialog" }, h("button", { class: "strong" }, "Close"));
    help.replaceChildren(h("h2", {}, "Keys"), terms([...lines, ...others]), close);
  }

  // -- the ranking

  function showPanel() {
    const { news, about } = state;
    const items = news.ranking?.items ?? [];
    const shown = items.length < about.items ? `The first ${items.length} of ${counted(about.items)}. ` : "";
    const meaning = "Bar: the places where an item lies with a probability of 90 %. Choose two items to see why one is above the other.";
    showSettled(news.settled);
    rankingHead.hidden = rankingHint.hidden = items.length === 0;
    rankingHint.textContent = shown + meaning;
    showRanking(items);
    showPeople(news.settled);
    el.dataset.learned = news.ranking?.answers ?? 0;
  }

  function showRanking(items) {
    const before = new Map([...list.children].map((entry) => [entry.dataset.row, entry]));
    const tops = new Map([...before].map(([row, entry]) => [row, entry.offsetTop]));
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    const widest = Math.max(2, ...items.map((item) => item.high));
    const entries = items.map((item, at) => {
      const entry = before.get(String(item.row)) ?? rankedItem(item);
      showPlace(entry, item, at + 1, widest);
      return entry;
    });
    list.replaceChildren(...entries);
    focused?.focus({ preventScroll: true });
    if (isCalm()) return;
    for (const entry of entries) {
      const shift = (tops.get(entry.dataset.row) ?? entry.offsetTop) - entry.offsetTop;
      const steps = [{ transform: `translateY(${shift}px)` }, { transform: "none" }];
      if (shift) entry.animate(steps, { duration: 250, easing: "ease-out" });
    }
  }

  function rankedItem(item) {
    const parts = [["place"], ["name", item.name], ["moved"], ["bar", h("i")]];
    const spans = parts.map(([kind, ...inside]) => h("span", { class: kind }, ...inside));
    const choice = button("", () => pick(item.row), ...spans);
    choice.setAttribute("aria-pressed", "false");
    return h("li", { "data-row": String(item.row) }, choice);
  }

  function showPlace(entry, item, place, widest) {
    const share = (at) => (100 * (at - 1)) / (widest - 1);
    const bar = entry.querySelector(".bar i");
    const moved = entry.querySelector(".moved");
    const isUp = item.moved > 0;
    const way = item.moved ? `, ${Math.abs(item.moved)} ${isUp ? "up" : "down"}` : "";
    const label = `${place}: ${item.name}, between places ${item.low} and ${item.high}${way}`;
    bar.style.left = `${Math.min(share(item.low), 97)}%`;
    bar.style.width = `${Math.max(3, share(item.high) - share(item.low))}%`;
    moved.textContent = item.moved ? `${isUp ? "▲" : "▼"}${Math.abs(item.moved)}` : "";
    moved.className = `moved ${isUp ? "up" : "down"}`;
    entry.querySelector(".place").textContent = String(place);
    entry.firstChild.setAttribute("aria-label", label);
  }

  function showSettled(now) {
    const share = now.enough ? 1 : now.more ? now.answers / (now.answers + now.more) : 0;
    const label = "Progress until the order is settled";
    const values = { "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share) };
    const bar = h("i");
    bar.style.width = `${100 * share}%`;
    const meter = h("div", { class: "meter", role: "progressbar", "aria-label": label, ...values }, bar);
    const more = now.enough ? "0" : now.more === null ? "?" : `~${counted(now.more)}`;
    const facts = terms([
      ["pairs in the wrong order", percent(now.misordered)],
      [`of the first ${now.top} belong there`, percent(now.top_stable)],
      ["more answers", more],
    ]);
    facts.className = "facts";
    settled.classList.toggle("enough", now.enough);
    settled.replaceChildren(meter, h("p", { class: "sentence" }, now.sentence), state.news.ranking ? facts : "");
  }

  function showPeople(now) {
    const lines = [];
    const shares = now.people.map(([name, number]) => `${name || NOBODY} ${number}`);
    if (shares.length > 1) lines.push(`Answers: ${shares.join(", ")}.`);
    if (now.repeated) lines.push(`Of ${plural(now.repeated, "judgement")} made again, ${now.consistent} came out alike.`);
    for (const [first, second, shared, alike] of now.agreement) {
      lines.push(`${first || NOBODY} and ${second || NOBODY} agree on ${alike} of ${plural(shared, "pair")}.`);
    }
    people.hidden = lines.length === 0;
    people.replaceChildren(h("h2", {}, "People"), ...lines.map((line) => h("p", {}, line)));
  }

  // -- why one item is above another

  /** An item of the ranking is picked; two of them are explained, the one above first. */
  function pick(row) {
    const others = state.pair.filter((other) => other !== row);
    setPair(others.length < state.pair.length ? others : [...others, row].slice(-2));
    if (state.pair.length < 2) return;
    const rows = [...list.children].map((entry) => Number(entry.dataset.row));
    const [first, second] = [...state.pair].sort((a, b) => rows.indexOf(a) - rows.indexOf(b));
    why.replaceChildren(h("p", {}, "Looking for the reasons …"));
    why.hidden = false;
    model.send({ action: "why", first, second });
  }

  function setPair(pair) {
    state.pair = pair;
    why.hidden = true;
    for (const entry of list.children) {
      entry.firstChild.setAttribute("aria-pressed", String(pair.includes(Number(entry.dataset.row))));
    }
  }

  function showWhy(reasons) {
    const groups = reasons.groups.map(([name, entries], at) => h("details", { open: at === 0 },
      h("summary", {}, name), contributions(entries)));
    why.replaceChildren(
      h("h3", {}, `Why is ${reasons.first} above ${reasons.second}?`),
      ...reasons.sentences.map((line) => h("p", {}, line)),
      ...groups,
      button("quiet", () => setPair([]), "Close"));
    why.hidden = false;
    why.scrollIntoView({ block: "nearest" });
  }

  /** Names and values as bars to the right (for the item above) and to the left. */
  function contributions(entries) {
    const widest = Math.max(...entries.map(([, value]) => Math.abs(value)), 1e-300);
    return h("ul", {}, entries.map(([name, value]) => {
      const bar = h("i", { class: value < 0 ? "against" : "for" });
      const length = (50 * Math.abs(value)) / widest;
      bar.style.width = `${length}%`;
      bar.style.left = `${value < 0 ? 50 - length : 50}%`;
      const texts = [h("span", { class: "name" }, name), h("span", { class: "value" }, signed(value))];
      return h("li", {}, ...texts, h("span", { class: "bar" }, bar));
    }));
  }

  // -- keys

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !state.about || help.open) return;
    if (keys === el) event.stopPropagation();
    const target = event.composedPath()[0];
    const number = actions.querySelector("input[type=number]");
    if (number && target !== number && /^[0-9]$/.test(event.key)) {
      number.value = "";
      number.focus();  // the key itself goes there
      return;
    }
    if (target === number || (target.type === "range" && event.key.startsWith("Arrow"))) return;
    if (target.matches?.("button, summary, a") && (event.key === " " || event.key === "Enter")) return;
    const act = actionOf(event.key.length === 1 ? event.key.toLowerCase() : event.key);
    if (!act) return;
    event.preventDefault();
    if (!event.repeat) act();
  }

  function actionOf(name) {
    const kind = state.about.kind;
    const always = { "?": () => help.showModal(), u: undo, Backspace: undo };
    if (always[name] || state.done || !state.question) return always[name];
    const here = { s: () => answer("skip"), " ": () => answer("skip") };
    if (kind !== "score") {
      here.t = () => answer("tie");
      POSITIONS.forEach((_, at) => { here[at + 1] = () => choose(at); });
    }
    if (kind === "compare") Object.assign(here, { ArrowLeft: here[1], ArrowRight: here[2], ArrowDown: here.t });
    if (state.best !== null) here.Escape = undo;
    return here[name];
  }

  keys.addEventListener("keydown", onKey);
  model.on("msg:custom", hear);
  model.send({ action: "start" });
  return () => {
    keys.removeEventListener("keydown", onKey);
    model.off("msg:custom", hear);
  };
}

// ---- over HTTP

/** For a page what a notebook's model is for a widget: messages are posted, and news are asked for. */
function httpModel() {
  const listeners = new Set();
  let version = -1, timer = 0, isLearning = true;

  async function post(message) {
    const body = JSON.stringify(message);
    try {
      const response = await fetch("messages", { method: "POST", headers: { "Content-Type": "application/json" }, body });
      return response.ok || response.status === 400 ? await response.json() : { lost: true };
    } catch {
      return { lost: true };
    }
  }

  async function send(message) {
    const reply = await post(message);
    version = reply.news?.version ?? version;
    isLearning = reply.news?.learning ?? reply.learning ?? (isLearning || ["answer", "undo"].includes(message.action));
    for (const listener of listeners) listener(reply);
    clearTimeout(timer);
    timer = setTimeout(() => send({ action: "news", version }), isLearning && !reply.lost ? SOON : LATER);
  }

  return { send, on: (_, listener) => listeners.add(listener), off: (_, listener) => listeners.delete(listener) };
}

const page = document.querySelector("[data-corank-page]");
if (page) mount(httpModel(), page, document);

export default { render: ({ model, el }) => mount(model, el, el) };
