"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const MOST = 300;  // children that are shown at a time
  const STATES = ["", "warn", "bad"];
  const byName = new Map(data.functions.map((f, i) => [f.name, i]));

  function make(tag, cls, text) {
    const element = document.createElement(tag);
    if (cls) element.className = cls;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  // Operations and bytes in three digits.
  function short(number, units) {
    let i = 0;
    while (number >= 1000 && i < units.length - 1) { number /= 1000; i++; }
    return (number >= 100 || i === 0 ? Math.round(number) : number.toPrecision(3)) + units[i];
  }
  function costText(path) {
    const cost = data.costs[path];
    if (!cost) return "";
    return `, ${short(cost[0], [" flop", " kflop", " Mflop", " Gflop", " Tflop"])}, ` +
      short(cost[1], [" B", " kB", " MB", " GB", " TB"]);
  }

  // Scopes of a function as a tree; `worst` is the worst state of a node below.
  function scopes(nodes) {
    const root = {children: new Map(), nodes: [], count: 0, worst: 0};
    for (const node of nodes) {
      const parts = node[0].split("/");
      const state = data.ops[node[1]][1];
      let scope = root;
      scope.count++;
      if (state > scope.worst) scope.worst = state;
      for (let i = 0; i < parts.length - 1; i++) {
        let child = scope.children.get(parts[i]);
        if (!child) {
          child = {children: new Map(), nodes: [], count: 0, worst: 0};
          scope.children.set(parts[i], child);
        }
        scope = child;
        scope.count++;
        if (state > scope.worst) scope.worst = state;
      }
      scope.nodes.push(node);
    }
    return root;
  }

  function nodeRow(node, label) {
    const row = make("div", "node mono");
    const [op, state] = data.ops[node[1]];
    row.append(make("span", "op " + STATES[state], op), " " + label + "(" + node[2].join(", ") + ") ");
    row.append(make("span", "soft", node[3]));
    for (const name of node[4]) {
      if (!byName.has(name)) continue;
      const call = functionDetails(name, byName.get(name));
      row.append(call);
    }
    return row;
  }

  // Adds rows in pieces, so that a scope with many nodes opens at once.
  function addInPieces(parent, makers) {
    let next = 0;
    const button = make("button", "more");
    const add = () => {
      const stop = Math.min(next + MOST, makers.length);
      const piece = document.createDocumentFragment();
      for (; next < stop; next++) piece.append(makers[next]());
      parent.insertBefore(piece, button.parentNode === parent ? button : null);
      if (next < makers.length) {
        button.textContent = `show ${Math.min(MOST, makers.length - next)} of ${makers.length - next} more`;
        if (button.parentNode !== parent) parent.append(button);
      } else button.remove();
    };
    button.addEventListener("click", add);
    add();
  }

  function fill(parent, scope, path) {
    const makers = [];
    for (const [name, child] of scope.children) makers.push(() => scopeDetails(name, child, path));
    for (const node of scope.nodes) makers.push(() => nodeRow(node, node[0].split("/").pop()));
    addInPieces(parent, makers);
  }

  function lazyDetails(summary, cls, onOpen) {
    const details = make("details", cls);
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (details.open && !details.dataset.filled) {
        details.dataset.filled = "1";
        onOpen(details);
      }
    });
    return details;
  }

  function scopeDetails(name, scope, outer) {
    // A chain of scopes with one child each is one line.
    while (scope.nodes.length === 0 && scope.children.size === 1) {
      const [[inner, child]] = scope.children;
      name += "/" + inner;
      scope = child;
    }
    const path = outer + name;
    const summary = make("summary", "mono " + STATES[scope.worst], name + " ");
    summary.append(make("span", "soft", scope.count + (scope.count === 1 ? " node" : " nodes") + costText(path)));
    return lazyDetails(summary, "", (details) => fill(details, scope, path + "/"));
  }

  function functionDetails(label, position, top) {
    const f = data.functions[position];
    const summary = make("summary", "mono", label + " ");
    const name = f.name === label ? "" : f.name + ", ";
    summary.append(make("span", "soft", name + f.nodes.length + " nodes"));
    return lazyDetails(summary, top ? "top" : "", (details) => fill(details, scopes(f.nodes), ""));
  }

  const graph = document.getElementById("graph");
  for (const [name, position] of data.entries) graph.append(functionDetails(name, position, true));

  const found = document.getElementById("found");
  let timer = 0;
  document.getElementById("search").addEventListener("input", (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => search(event.target.value.trim().toLowerCase()), 120);
  });
  function search(text) {
    found.replaceChildren();
    if (!text) return;
    let count = 0;
    const ops = data.ops.map(([op]) => op.toLowerCase().includes(text));
    for (const f of data.functions) {
      for (const node of f.nodes) {
        if (!ops[node[1]] && !node[0].toLowerCase().includes(text)) continue;
        if (++count <= 200) found.append(nodeRow(node, node[0]));
      }
    }
    found.prepend(make("p", "soft", count > 200 ? `${count} nodes, the first 200:` : `${count} nodes`));
  }
})();
