// The console's script: theme, live parts, actions, keys. Pages can be read without it.
"use strict";
(() => {
  const root = document.documentElement;
  const remembered = () => { try { return localStorage.getItem("reveille-theme"); } catch { return null; } };
  if (remembered()) root.dataset.theme = remembered();
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (name, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  // The console's root ends with /console/; the API begins one level above.
  const console_ = () => new URL(document.baseURI);
  const api = (route) => new URL("." + route, new URL("../", console_()));

  // Theme
  const switchTheme = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("reveille-theme", root.dataset.theme); } catch { /* not remembered */ }
  };

  // Messages
  const toast = (text) => {
    const message = make("div", { className: "toast", textContent: text });
    document.querySelector("[data-toasts]").append(message);
    setTimeout(() => message.remove(), 6000);
  };

  // Relative times
  const units = [[172800, 86400, "d"], [7200, 3600, "h"], [120, 60, "min"], [0, 1, "s"]];
  const relative = (at) => {
    const seconds = (Date.now() - at) / 1000;
    const size = Math.abs(seconds);
    if (size < 1) return "now";
    const [, unit, name] = units.find(([from]) => size >= from);
    const text = `${Math.round(size / unit)} ${name}`;
    return seconds > 0 ? `${text} ago` : `in ${text}`;
  };
  const refreshTimes = () => {
    for (const element of all("[data-relative]")) {
      const at = Date.parse(element.dataset.relative);
      if (Number.isNaN(at)) continue;
      const text = relative(at);
      if (element.textContent !== text) element.textContent = text;
      const time = element.closest("time");
      if (time) time.title = `${time.dateTime}\n${new Date(at).toLocaleString()}`;
    }
  };

  // Live parts: the page is asked for again after a change, and its live parts are exchanged.
  let loading = false, again = false;
  const keep = (part) => part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")
    || part.querySelector("dialog[open]");
  const opened = (part) => all("details", part).map((details) => details.open);
  const exchange = (part, fresh) => {
    if (part.innerHTML === fresh.innerHTML || keep(part)) return;
    const state = opened(part), focused = part.contains(document.activeElement) ? document.activeElement : null;
    const address = focused && focused.getAttribute("href");
    part.replaceChildren(...fresh.childNodes);
    const details = all("details", part);
    if (details.length === state.length) details.forEach((one, index) => { one.open = state[index]; });
    if (address) all("a[href]", part).find((link) => link.getAttribute("href") === address)?.focus();
  };
  const refresh = async () => {
    if (!document.querySelector("[data-live]")) return;
    if (loading) { again = true; return; }
    loading = true;
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
      if (response.redirected) { location.reload(); return; }
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      for (const part of all("[data-live]")) {
        const other = all("[data-live]", fresh).find((one) => one.dataset.live === part.dataset.live);
        if (other) exchange(part, other);
      }
      refreshTimes();
      document.dispatchEvent(new Event("reveille:refreshed"));
    } catch { /* the event stream says that the server is away */ } finally {
      loading = false;
      if (again) { again = false; refresh(); }
    }
  };
  const listen = () => {
    const pulse = document.querySelector("[data-pulse]");
    if (!pulse) return; // the login page is not live
    const wanted = (document.body.dataset.products || "").split(" ").filter(Boolean);
    const say = (state, text, title) => { pulse.dataset.state = state; pulse.textContent = text; pulse.title = title; };
    const events = new EventSource(new URL("events", console_()));
    let lost = false, stale = false;
    events.onopen = () => {
      say("live", "live", "Pages are loaded again when something changes, and only then");
      if (lost) refresh();
      lost = false;
    };
    events.onerror = () => { lost = true; say("lost", "no server", "The server cannot be reached; trying again"); };
    events.addEventListener("change", (event) => {
      if (wanted.length && !event.data.split(" ").some((product) => wanted.includes(product))) return;
      if (document.hidden) stale = true; else refresh();
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && stale) { stale = false; refresh(); }
    });
    addEventListener("pagehide", () => events.close());
  };

  // Actions: bodies are put together as text, so that numbers keep their digits.
  const field = (input) => {
    const { kind } = input.dataset, text = input.value;
    if (kind === "flag") return String(input.checked);
    if (text === "") return null;
    if (kind === "time") return JSON.stringify(new Date(text).toISOString());
    if (kind === "number" && !/^\s*-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\s*$/.test(text)) throw new Error(`${text} is not a number`);
    if (kind === "json") { try { JSON.parse(text); } catch (error) { throw new Error(`not valid JSON: ${error.message}`); } }
    return kind === "number" || kind === "json" ? text.trim() : JSON.stringify(text);
  };
  const put = (node, path, text) => {
    const [name, ...rest] = path;
    if (!rest.length) { node.set(name, text); return; }
    if (!(node.get(name) instanceof Map)) node.set(name, new Map());
    put(node.get(name), rest, text);
  };
  const write = (node) => {
    if (!(node instanceof Map)) return node;
    const members = [...node];
    if (members.length && members.every(([name]) => /^\d+$/.test(name))) return `[${members.map(([, value]) => write(value)).join(",")}]`;
    return `{${members.map(([name, value]) => `${JSON.stringify(name)}:${write(value)}`).join(",")}}`;
  };
  const request = (form, { method, route, fixed } = {}, more = []) => {
    const plan = [...JSON.parse(form.dataset.fixed), ...JSON.parse(fixed || "[]"), ...more];
    const body = new Map(), url = api(route || form.dataset.route);
    for (const [path, text] of plan) {
      if (path.startsWith("?")) url.searchParams.set(path.slice(1), JSON.parse(text)); else put(body, path.split("."), text);
    }
    for (const input of all("[data-path]", form)) {
      const text = field(input);
      if (text === null) continue;
      if (input.dataset.path.startsWith("?")) url.searchParams.set(input.dataset.path.slice(1), input.dataset.kind === "text" ? input.value : JSON.parse(text));
      else put(body, input.dataset.path.split("."), text);
    }
    const verb = method || form.dataset.method;
    const has = body.size > 0 || ["POST", "PUT", "PATCH"].includes(verb);
    return { url, method: verb, body: has ? write(body) : undefined };
  };
  const send = async ({ url, method, body }, signal) => {
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    const response = await fetch(url, { method, headers, body, signal, credentials: "same-origin" });
    const text = await response.text();
    let json = null;
    try { json = JSON.parse(text); } catch { /* no JSON */ }
    if (!response.ok) throw new Error(json?.error || `status ${response.status}`);
    return { json, text };
  };
  const word = (text) => /^[\w\-./:=@%+,]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  const showCurl = (form) => {
    try {
      const { url, method, body } = request(form);
      const data = body === undefined ? "" : ` \\\n  -H 'content-type: application/json' -d ${word(body)}`;
      form.querySelector("[data-curl]").textContent = `curl -X ${method} ${word(url.href)}${data}`;
    } catch { /* shown when it is sent */ }
  };
  const allowSubmit = (form) => {
    const typed = all("[data-confirm]", form).every((input) => input.value === input.dataset.confirm);
    form.querySelector("[type=submit]").disabled = !typed || form.dataset.waiting === "preview";
  };
  const preview = async (form) => {
    const { previewMethod: method, previewRoute: route, previewFixed: fixed } = form.dataset;
    if (!route) return;
    const out = form.querySelector("[data-preview]");
    form.dataset.waiting = "preview";
    allowSubmit(form);
    try {
      const { json } = await send(request(form, { method, route, fixed }));
      const count = json.count ?? json.matched ?? json.total ?? json.deleted ?? Object.values(json).find((value) => typeof value === "number");
      const sample = json.sample ?? Object.values(json).find(Array.isArray) ?? [];
      out.replaceChildren(make("p", { textContent: count === undefined ? "This is what it would affect:" : `It would affect ${count}.` }));
      if (sample.length) out.append(make("pre", { tabIndex: 0, textContent: sample.slice(0, 5).map((one) => JSON.stringify(one)).join("\n") }));
      out.classList.remove("bad");
      delete form.dataset.waiting;
    } catch (error) {
      out.classList.add("bad");
      out.textContent = error.message;
    }
    allowSubmit(form);
  };
  const run = async (form) => {
    const out = form.querySelector("[data-outcome]"), submit = form.querySelector("[type=submit]");
    const stop = new AbortController(), cancel = form.querySelector("[data-close]");
    const repeats = "repeats" in form.dataset;
    out.className = "outcome";
    out.textContent = "";
    submit.disabled = true;
    try {
      let done = 0, more = [], answer = null, kept = [];
      if (repeats) { cancel.textContent = "Stop"; cancel.dataset.stop = ""; cancel.onclick = () => stop.abort(); }
      do {
        answer = (await send(request(form, {}, more), stop.signal)).json;
        done += answer?.done ?? answer?.count ?? 0;
        kept = kept.concat(answer?.kept ?? []);
        more = answer?.next == null ? [] : [["after", JSON.stringify(answer.next)]];
        if (repeats) out.replaceChildren(make("progress"), ` ${done} done`);
      } while (repeats && more.length && !stop.signal.aborted);
      const first = Array.isArray(answer) ? answer[0] : answer?.results?.[0];
      const failed = answer?.success === false || first?.ok === false || first?.status === "failed";
      if (failed) throw new Error(answer.error || first?.error || "rejected");
      if (kept.length) { refresh(); throw new Error(`${done} done, ${kept.length} left as they are. The first: ${kept[0].reason}`); }
      form.closest("dialog").close();
      if (form.dataset.then) { location.assign(new URL(form.dataset.then, console_())); return; }
      toast(`${form.closest("dialog").getAttribute("aria-label")}: done`);
      refresh();
    } catch (error) {
      out.classList.add("bad");
      out.textContent = error.name === "AbortError" ? "Stopped. What was done stays done." : error.message;
    } finally {
      cancel.textContent = "Cancel";
      cancel.onclick = null;
      delete cancel.dataset.stop;
      allowSubmit(form);
    }
  };

  // Rows and keys
  let current = -1;
  const rows = () => all("[data-rows] tbody tr").filter((row) => row.querySelector("a[href]"));
  const move = (by) => {
    const list = rows();
    if (!list.length) return;
    current = Math.min(list.length - 1, Math.max(0, current + by));
    list.forEach((row, index) => row.toggleAttribute("data-current", index === current));
    list[current].querySelector("a[href]").focus();
  };
  const KEYS = [["Ctrl K", "go to a page, a queue, a task"], ["/", "filter"], ["j, k", "next row, previous row"], ["Enter", "open the row"],
    ["g then o, q, t, d, w", "overview, queues, tasks, durable, wake"], ["Esc", "close"], ["?", "these keys"]];
  const showKeys = () => {
    const list = make("dl");
    for (const [keys, what] of KEYS) list.append(make("dt", {}, make("kbd", { textContent: keys })), make("dd", { textContent: what }));
    const dialog = make("dialog", { className: "keys" }, make("h2", { textContent: "Keys" }), list);
    dialog.setAttribute("aria-label", "Keys");
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  };

  // Palette: pages, and whatever the server finds
  const openPalette = () => {
    if (document.querySelector("dialog.palette")) return;
    const input = make("input", { type: "text", placeholder: "Go to…", autocomplete: "off", spellcheck: false });
    const list = make("ul", { id: "palette-list" });
    for (const [name, value] of [["role", "combobox"], ["aria-expanded", "true"], ["aria-controls", "palette-list"], ["aria-label", "Go to"]]) input.setAttribute(name, value);
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Results");
    const dialog = make("dialog", { className: "palette" }, input, list);
    dialog.setAttribute("aria-label", "Go to");
    const pages = all(".bar nav a").map((link) => ({ title: link.textContent.trim(), kind: "page", href: link.getAttribute("href") }));
    let found = [], chosen = 0, asked = 0;
    const choose = (index) => {
      chosen = Math.min(Math.max(0, found.length - 1), Math.max(0, index));
      [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
      list.children[chosen]?.scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", list.children.length ? `palette-${chosen}` : "");
    };
    const go = () => { if (found[chosen]) location.assign(new URL(found[chosen].href, console_())); };
    const show = (items) => {
      found = items;
      list.replaceChildren(...items.map((item, index) => {
        const row = make("li", { id: `palette-${index}` }, make("span", { textContent: item.title }), make("small", { textContent: item.kind }));
        row.setAttribute("role", "option");
        row.addEventListener("click", () => { chosen = index; go(); });
        return row;
      }));
      choose(0);
    };
    const search = async () => {
      const text = input.value.trim(), own = ++asked;
      const here = pages.filter((page) => page.title.toLowerCase().includes(text.toLowerCase()));
      show(here);
      if (!text) return;
      try {
        const url = new URL("search", console_());
        url.searchParams.set("q", text);
        const response = await fetch(url, { headers: { accept: "application/json" } });
        const items = await response.json();
        if (own === asked) show([...here, ...items]);
      } catch { /* only the pages are offered */ }
    };
    input.addEventListener("input", search);
    dialog.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") choose(chosen + 1);
      else if (event.key === "ArrowUp") choose(chosen - 1);
      else if (event.key === "Enter") go();
      else return;
      event.preventDefault();
    });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    show(pages);
    dialog.showModal();
    input.focus();
  };

  let pending = "";
  const onKey = (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); openPalette(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches("input, select, textarea")) return;
    const keys = { j: () => move(1), k: () => move(-1), "/": () => document.querySelector("[data-filter] input[type=search]")?.focus(), "?": showKeys };
    if (pending === "g") {
      pending = "";
      const link = all(".bar nav a").find((one) => one.dataset.key === event.key);
      if (link) { location.assign(link.href); return; }
    }
    if (event.key === "g") { pending = "g"; return; }
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  };

  document.addEventListener("DOMContentLoaded", () => {
    root.dataset.script = "";
    document.addEventListener("keydown", onKey);
    document.addEventListener("click", (event) => {
      const hit = (selector) => event.target.closest(selector);
      if (hit("[data-theme-switch]")) switchTheme();
      if (hit("[data-open-palette]")) openPalette();
      const open = hit("[data-action] [data-open]"), close = hit("[data-close]");
      if (open) {
        const dialog = open.parentElement.querySelector("dialog"), form = dialog.querySelector("form");
        dialog.showModal();
        allowSubmit(form);
        showCurl(form);
        preview(form);
      }
      if (close && !("stop" in close.dataset)) close.closest("dialog").close();
    });
    document.addEventListener("input", (event) => {
      const form = event.target.closest("[data-action] form");
      if (form) { showCurl(form); allowSubmit(form); }
      if (form && event.target.matches("[data-path]")) { clearTimeout(form.timer); form.timer = setTimeout(() => preview(form), 300); }
    });
    document.addEventListener("submit", (event) => {
      const form = event.target.closest("[data-action] form");
      if (!form) return;
      event.preventDefault();
      run(form);
    });
    for (const input of all("[data-kind=time]")) {
      const at = new Date(input.dataset.value);
      if (!Number.isNaN(at.getTime())) input.value = new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
    }
    refreshTimes();
    setInterval(refreshTimes, 1000);
    listen();
  });
})();
