// The desk's page: asks the server in JSON, and shows what it answers as text, never as markup.
"use strict";

const at = (id) => document.getElementById(id);
const STEPS = ["data", "look", "promise", "plan", "run", "release"];
const WORDS = {
  starting: "Starting.",
  reading: "Reading the data; nothing has been charged yet.",
  fitting: "Charging the ledger, then fitting. The first fit of a kind also compiles, once.",
  writing: "Writing the release.",
  cancelling: "Cancelling.",
};
const state = { file: "", seen: null, limit: Infinity, ledger: null, wait: 0, over: false };

function make(name, given = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

async function ask(what, form = {}) {
  let answer;
  try {
    answer = await fetch(`ask/${what}`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(form),
    });
  } catch {
    throw { message: "The desk does not answer. Has it been ended? A run that had begun says in the ledger what it was charged." };
  }
  if (!answer.ok && answer.status !== 422) throw { message: `Refused (${answer.status}). Open the desk's address again.` };
  const found = await answer.json();
  if (!answer.ok) throw found;
  return found;
}

// Errors.

function clearFaults() {
  at("alert").hidden = true;
  for (const each of document.querySelectorAll(".fault")) each.remove();
  for (const each of document.querySelectorAll("[aria-invalid]")) {
    each.removeAttribute("aria-invalid");
    each.removeAttribute("aria-errormessage");
  }
}

function showFault(error) {
  const words = error.message || String(error);
  const text = [words[0].toUpperCase() + words.slice(1), ...(error.notes || [])].join("\n");
  const place = { folder: "file", value: "modes", name: "ledger-name" }[error.field] || error.field;
  const field = place && at(place);
  if (!field || !field.closest("section") || field.closest("[hidden]")) {
    at("alert").textContent = text;
    at("alert").hidden = false;
    at("alert").scrollIntoView({ block: "center" });
    return;
  }
  const fault = make("p", { class: "fault", id: `${place}-fault`, role: "alert" }, text);
  const holder = field.matches("fieldset") ? field : field.closest(".field, span, details, fieldset") || field.parentElement;
  holder.append(fault);
  const folded = field.closest("details");
  if (folded) folded.open = true;
  const control = field.matches("fieldset") ? field.querySelector("input, select") : field;
  if (control) {
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-errormessage", fault.id);
    control.focus();
  }
}

function onSubmit(id, work) {
  at(id).addEventListener("submit", async (event) => {
    event.preventDefault();
    clearFaults();
    const button = event.submitter || at(id).querySelector("button[type=submit]");
    button.setAttribute("aria-busy", "true");
    try { await work(); } catch (error) { showFault(error); }
    button.removeAttribute("aria-busy");
  });
}

// Steps: a later one is shown when the one before is done.

function open(name, { focus = true } = {}) {
  const last = STEPS.indexOf(name);
  const items = at("steps").children;
  STEPS.forEach((each, k) => {
    if (k <= last) at(each).hidden = false;
    items[k].className = at(each).hidden ? "" : "open";
    const link = items[k].firstElementChild;
    if (at(each).hidden) link.setAttribute("tabindex", "-1"); else link.removeAttribute("tabindex");
    if (k === last) link.setAttribute("aria-current", "step"); else link.removeAttribute("aria-current");
    if (k === last) items[k].className = "open now";
  });
  if (focus) {
    at(`${name}-title`).focus({ preventScroll: true });
    at(name).scrollIntoView();
  }
}

function close(name) {
  STEPS.slice(STEPS.indexOf(name)).forEach((each) => { at(each).hidden = true; });
}

// 1. Data.

const size = (bytes) => bytes < 1000 ? `${bytes} bytes` : bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${Math.round(bytes / 1e6)} MB`;

async function listFiles(folder) {
  const found = await ask("files", { folder });
  state.limit = found.limit;
  at("folder-name").textContent = found.folder || "the desk’s folder";
  const rows = [];
  if (found.folder) {
    const up = found.folder.split("/").slice(0, -1).join("/");
    rows.push(make("li", {}, make("button", { type: "button", onclick: () => enter(up) }, "Up, to the folder above")));
  }
  for (const each of found.found) {
    const act = each.folder ? () => enter(each.path) : () => { at("file").value = each.path; at("file").focus(); };
    const named = make("span", {}, each.folder ? `${each.name}/` : each.name);
    rows.push(make("li", {}, make("button", { type: "button", onclick: act },
      named, make("span", { class: "size" }, each.folder ? "folder" : size(each.bytes)))));
  }
  if (!found.found.length) rows.push(make("li", { class: "none" }, "Nothing here."));
  if (found.more) rows.push(make("li", { class: "none" }, "There are more; type the name."));
  at("files").replaceChildren(...rows);
}

async function enter(folder) {
  clearFaults();
  try { await listFiles(folder); } catch (error) { showFault(error); }
  const first = at("files").querySelector("button");
  if (first) first.focus();
}

onSubmit("data-form", async () => {
  state.file = at("file").value.trim();
  await look();
});

at("upload").addEventListener("change", async () => {
  clearFaults();
  const [file] = at("upload").files;
  if (!file) return;
  try {
    if (file.size > state.limit) throw { field: "upload", message: `Uploads may have ${state.limit} bytes in all. Put the file into the desk’s folder.` };
    const answer = await fetch(`upload?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
    const found = await answer.json();
    if (!answer.ok) throw found;
    state.file = found.file;
    at("file").value = "";
    await look();
  } catch (error) {
    showFault(error instanceof Error ? { field: "upload", message: "The upload broke off. Try again." } : error);
  }
});

// 2. A look.

async function look() {
  close("look");
  const seen = await ask("preview", { file: state.file });
  state.seen = seen;
  const name = state.file.split("/").pop();
  at("facts").textContent = `${name}: ${seen.rows.toLocaleString("en")} rows, ${size(seen.bytes)}.` +
    (seen.more_columns ? ` ${seen.more_columns} more columns are not shown.` : "");
  at("first").hidden = !seen.is_table;
  if (seen.is_table) {
    const head = make("tr", {}, ...seen.columns.map((c) => make("th", { scope: "col" }, c.name)));
    const rows = seen.first.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell))));
    at("first").replaceChildren(make("table", {},
      make("caption", { class: "unseen" }, "The first rows"), make("thead", {}, head), make("tbody", {}, ...rows)));
  }
  showRoles(seen);
  open("look");
}

function showRoles(seen) {
  at("modes").hidden = !seen.is_table;
  const named = seen.columns.findIndex((column) => column.name === "value");
  const value = named >= 0 ? named : seen.columns.length - 1;
  at("roles").replaceChildren(...seen.columns.map((column, k) => {
    const options = [["mode", "a mode"], ["value", "the value"], ["", "not used"]].map(([key, words]) => make("option", { value: key }, words));
    const chosen = make("select", { id: `role-${k}`, "data-name": column.name }, ...options);
    chosen.value = k === value ? "value" : seen.columns.length <= 9 ? "mode" : "";
    return make("div", { class: "row" },
      make("label", { class: "name", for: `role-${k}` }, column.name, " ",
        make("span", { class: "holds" }, column.moments ? "moments" : column.holds)), chosen,
      ...(column.moments ? [binsOf(column.name, k)] : []));
  }));
}

// Moments nearly all differ: only in bins can something be learnt of each.
function binsOf(name, k) {
  const words = [["day", "days"], ["hour", "hours"], ["week", "weeks"], ["month", "months"], ["", "no bins: each moment by itself"]];
  return make("span", {}, make("label", { for: `bin-${k}` }, "in bins of"), make("select", { id: `bin-${k}`, "data-bin": name },
    ...words.map(([key, text]) => make("option", { value: key }, text))));
}
const bins = () => Object.fromEntries([...at("roles").querySelectorAll("[data-bin]")]
  .filter((each) => each.value && modes().includes(each.dataset.bin)).map((each) => [each.dataset.bin, each.value]));

// In the order of the columns; the server refuses what cannot be.
const roles = () => state.seen.is_table
  ? Object.fromEntries([...at("roles").querySelectorAll("[data-name]")].map((each) => [each.dataset.name, each.value]))
  : null;
const modes = () => state.seen.is_table
  ? Object.entries(roles()).filter(([, role]) => role === "mode").map(([name]) => name)
  : state.seen.columns.map((column) => column.name);

onSubmit("look-form", async () => {
  const values = Object.values(roles() || {}).filter((role) => role === "value").length;
  if (modes().length < 2 || (state.seen.is_table && values !== 1))
    throw { field: "modes", message: "Choose at least two columns as modes, and exactly one as the value." };
  at("protect").replaceChildren(...modes().map((name) => make("option", { value: name }, name)));
  at("list-rows").replaceChildren(...modes().map(listRow));
  if (modes().length !== 2) at("model").querySelector("[value=matrix]").disabled = true;
  showUnit();
  open("promise");
});

function listRow(name, k) {
  const cell = (label, id, more) => make("span", {}, make("label", { for: id }, label), make("input", {
    id, type: "text", autocomplete: "off", spellcheck: "false", ...more }));
  const group = (...cells) => make("div", { class: "row", role: "group", "aria-label": `Mode ${name}` },
    make("span", { class: "name" }, name), ...cells);
  if (state.seen.is_table && bins()[name])
    return group(cell("From", `from-${k}`, { "data-from": name, size: 12 }), cell("to, such as 2024-12-31", `to-${k}`, { "data-to": name, size: 12 }));
  const lists = state.seen.is_table ? [
    cell("Public list (file)", `list-${k}`, { "data-list": name, size: 18 }),
    cell("its column", `column-${k}`, { "data-column": name, size: 10 })] : [];
  return group(...lists, cell("or at most", `size-${k}`, { "data-size": name, size: 8, inputmode: "numeric" }));
}

// 3. The promise.

const unit = () => document.querySelector("input[name=unit]:checked").value;

function showUnit() {
  const kind = unit();
  at("protect-field").hidden = kind !== "slice";
  at("lists").hidden = kind === "value";
  at("indices").closest(".choice").hidden = !state.seen || !state.seen.is_table;
  at("duplicates-field").hidden = kind !== "value";
  at("entries-field").hidden = at("entries-hint").hidden = kind === "value";
  at("fill-field").hidden = kind === "slice";
  if (kind === "slice" && at("delta").value === "0") at("delta").value = "1e-6";
  if (kind === "value" && at("delta").value === "1e-6") at("delta").value = "0";
  at("ledger-delta").value = at("delta").value;
  close("plan");
}
for (const each of document.querySelectorAll("input[name=unit]")) each.addEventListener("change", showUnit);

function promise() {
  const given = (attribute) => Object.fromEntries(
    [...document.querySelectorAll(`[data-${attribute}]`)].map((each) => [each.dataset[attribute], each.value]));
  const [files, columns, from, to] = [given("list"), given("column"), given("from"), given("to")];
  return {
    file: state.file, roles: roles(), unit: unit(), protect: at("protect").value, low: at("low").value, high: at("high").value,
    delta: at("delta").value, duplicates: at("duplicates").value, model: at("model").value, rank: at("rank").value,
    lists: unit() === "value" ? {} : Object.fromEntries(Object.keys(files).map((name) => [name, { file: files[name], column: columns[name] }])),
    bins: state.seen.is_table ? bins() : {}, ranges: Object.fromEntries(Object.keys(from).map((name) => [name, [from[name], to[name]]])),
    sizes: unit() === "value" ? {} : given("size"), indices: unit() !== "value" && at("indices").checked,
  };
}

onSubmit("promise-form", async () => {
  await ask("check", promise());
  open("plan");
});

// 4. The plan.

onSubmit("plan-form", async () => {
  const planned = await ask("plan", { ...promise(), epsilon: at("epsilon").value, entries: at("entries").value });
  const methods = [...new Set(planned.budgets.flatMap((each) => each.expected.map((one) => one.method)))];
  const number = (value) => value === undefined ? "" : Number(value.toPrecision(3)).toString();
  const head = make("tr", {}, make("th", { scope: "col" }, "method"),
    ...planned.budgets.map((each) => make("th", { scope: "col", class: "number" }, `epsilon ${each.epsilon}`)));
  const rows = methods.map((method) => make("tr", {}, make("th", { scope: "row" }, method),
    ...planned.budgets.map((each) => {
      const found = each.expected.find((one) => one.method === method);
      return make("td", { class: each.method === method ? "number best" : "number" }, number(found && found.rmse));
    })));
  at("plan-table").replaceChildren(make("table", {},
    make("caption", { class: "unseen" }, "Guessed root mean square error of each method, by epsilon"),
    make("thead", {}, head), make("tbody", {}, ...rows)));
  const mine = planned.budgets.find((each) => each.epsilon === Number(at("epsilon").value));
  at("plan-words").textContent = [mine && mine.releases, `A fit takes, roughly and on one core: ${planned.cost}.`, planned.assumed]
    .filter(Boolean).join(" ");
  at("planned").hidden = false;
  state.over = false;
  await listLedgers();
  showBill();
  open("run", { focus: false });
  at("plan-table").focus();
});
at("epsilon").addEventListener("input", () => { state.over = false; showBill(); });

// 5. The ledger and the run.

async function listLedgers(chosen) {
  const { found } = await ask("files", { folder: "" });
  const names = found.filter((each) => each.name.endsWith(".ledger")).map((each) => each.path);
  const before = chosen || at("ledger").value;
  at("ledger").replaceChildren(...(names.length ? names : [""]).map((name) => make("option", { value: name }, name || "none yet")));
  if (names.includes(before)) at("ledger").value = before;
  at("new-ledger").open = !names.length;
  if (names.length) await showLedger(); else at("ledger-shown").replaceChildren();
}

async function showLedger() {
  const name = at("ledger").value;
  state.ledger = name ? await ask("ledger", { ledger: name }) : null;
  if (!state.ledger) return;
  const { unit: protects, charges } = state.ledger;
  const { budget, spent, remaining } = state.ledger.shown;
  const line = (words, each) => make("tr", {}, make("th", { scope: "row" }, words),
    make("td", { class: "number" }, each.epsilon), make("td", { class: "number" }, each.delta));
  const head = make("tr", {}, make("td", {}), make("th", { scope: "col", class: "number" }, "epsilon"), make("th", { scope: "col", class: "number" }, "delta"));
  at("ledger-shown").replaceChildren(
    make("p", { class: "small" }, `Protects: ${protects}. ${charges.length} charge${charges.length === 1 ? "" : "s"} so far.`),
    make("div", { class: "scroll" }, make("table", { class: "balance" }, make("caption", { class: "unseen" }, `The ledger ${name}`),
      make("thead", {}, head), make("tbody", {}, line("budget", budget), line("spent", spent), line("left", remaining)))),
    ...(charges.length ? [listCharges(charges)] : []));
  showBill();
}

function listCharges(charges) {
  const names = ["time (UTC)", "purpose", "charged", "status"];
  const rows = charges.map((each) => [each.time.slice(0, 16).replace("T", " "), each.purpose, each.words, each.status]);
  return make("details", {}, make("summary", {}, "Charges"),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Charges" }, make("table", {},
      make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell))))))));
}

function showBill() {
  const cost = `epsilon ${at("epsilon").value}, delta ${at("delta").value}`;
  const name = at("ledger").value, left = state.ledger && name ? state.ledger.shown.remaining.epsilon : null;
  at("bill").textContent = state.over
    ? `The run is over${left === null ? "" : `: epsilon ${left} is left in ${name}`}. Another run would spend ${cost} on top.`
    : `This run spends ${cost}${left === null ? "" : `, of epsilon ${left} that is left in ${name}`}. ` +
      "A charge is never given back, even if the run is cancelled or fails.";
  at("start").textContent = `Spend epsilon ${at("epsilon").value} and run`;
}
onSubmit("ledger-form", showLedger);
at("ledger").addEventListener("change", () => showLedger().catch(showFault));

onSubmit("new-ledger-form", async () => {
  const made = await ask("new-ledger", { name: at("ledger-name").value, epsilon: at("ledger-epsilon").value,
    delta: at("ledger-delta").value, unit: unit(), protect: at("protect").value });
  await listLedgers(made.path);
  at("output").focus();
});

onSubmit("run-form", async () => {
  close("release");
  await ask("run", { ...promise(), epsilon: at("epsilon").value, ledger: at("ledger").value, output: at("output").value.trim(),
    purpose: at("purpose").value, fill: unit() === "slice" ? "" : at("fill").value });
  watch();
});

at("cancel").addEventListener("click", async () => {
  try { await ask("cancel"); } catch (error) { showFault(error); }
});

function watch() {
  state.over = false;
  at("start").disabled = true;
  at("cancel").disabled = false;
  at("progress").hidden = false;
  at("cancel").focus();
  clearTimeout(state.wait);
  follow();
}

async function follow() {
  let found;
  try { found = await ask("look"); } catch (error) { finish("The run cannot be followed any more."); showFault(error); return; }
  if (found.state === "running") {
    const words = WORDS[found.step] || found.step;
    if (at("step").textContent !== words) at("step").textContent = words;
    const done = ["starting", "reading", "fitting", "writing"].indexOf(found.step);
    const rounds = found.step === "fitting" && found.rounds;
    // Only rounds are all of the step; other counts begin anew with every part of it.
    if (done >= 0) at("bar").value = done + (rounds && found.counted === "rounds" ? rounds[0] / rounds[1] : 0.5);
    at("seconds").textContent = (rounds ? `${rounds[0]} of ${rounds[1]} ${found.counted}, ` : "") + `${found.seconds} s`;
    state.wait = setTimeout(follow, 400);
    return;
  }
  if (found.state === "done") { at("bar").value = 4; finish("Done."); showRelease(found); }
  else if (found.state !== "idle") {
    finish(found.state === "cancelled" ? "Cancelled." : "Failed.");
    showFault(found);
  }
  state.over = found.state !== "idle";
  try { await showLedger(); } catch (error) { showFault(error); }
}

function finish(words) {
  at("step").textContent = words;
  at("seconds").textContent = "";
  at("start").disabled = false;
  at("cancel").disabled = true;
}

// 6. The release.

function showRelease(found) {
  at("sentence").textContent = found.sentence;
  const facts = [["Folder", found.folder], ["Method", found.method], ...found.notes.map((note) => ["Found", note])];
  if (found.rmse !== null) facts.push(["Error", `about ${Number(found.rmse.toPrecision(3))}, as measured under noise`]);
  if (found.filled !== null) facts.push(["Filled", `${found.filled.toLocaleString("en")} cells`]);
  for (const path of found.leftovers) facts.push(["Left over", `${path}, of a run that was killed; remove it when nothing in it is wanted`]);
  at("told").replaceChildren(...facts.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
  const place = `release/${found.number}`;
  at("report").href = `${place}/report.html`;
  at("everything").href = `${place}.zip`;
  at("released-files").replaceChildren(...found.files.map((name) =>
    make("li", {}, make("a", { href: `${place}/${encodeURIComponent(name)}?save`, download: name }, name))));
  open("release");
}

(async () => {
  open("data", { focus: false });
  try {
    await listFiles("");
    const found = await ask("look");
    state.over = found.state === "done";
    if (state.over) showRelease(found);
    if (found.state === "running") { open("run"); watch(); }
  } catch (error) { showFault(error); }
})();
