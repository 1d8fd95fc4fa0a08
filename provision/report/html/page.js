/* Filters hosts by text, platform and group; the page is whole without it. It writes no HTML. */
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const find = byId("find"), platform = byId("platform"), group = byId("group");
  const hosts = [...document.querySelectorAll("#hosts tr[data-s]")].map((row) => {
    const anchor = row.querySelector("a").getAttribute("href").slice(1);
    return {
      anchor,
      status: row.dataset.s,
      keys: (row.dataset.k || "").split(" "),
      rows: [row],
      part: byId(anchor),
      text: null,
    };
  });
  const known = new Map(hosts.map((host) => [host.anchor, host]));
  for (const row of document.querySelectorAll("#past tr[data-s]")) {
    const host = known.get(row.querySelector("a").getAttribute("href").slice(1));
    if (host) host.rows.push(row);
  }
  const containers = [...document.querySelectorAll("#hosts tbody, #each .group")];
  const textOf = (host) => {
    host.text ??= (host.rows[0].textContent + " " + host.part.textContent).toLowerCase();
    return host.text;
  };
  const apply = () => {
    const status = document.querySelector("input[name=show]:checked");
    const wanted = status && status.id !== "show-all" ? status.id.slice(5) : "";
    const keys = [platform, group].map((list) => list && list.value).filter(Boolean);
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const host of hosts) {
      const fits =
        (!wanted || host.status === wanted) &&
        keys.every((key) => host.keys.includes(key)) &&
        words.every((word) => textOf(host).includes(word));
      shown += fits;
      for (const element of [...host.rows, host.part]) {
        if (element.hidden === fits) element.hidden = !fits;
      }
    }
    for (const container of containers) {
      container.hidden = !container.querySelector("tr[data-s]:not([hidden]), details.host:not([hidden])");
    }
    byId("shown").textContent = shown + " of " + hosts.length + " hosts";
  };
  document.querySelector("#hosts").addEventListener("input", apply);
  byId("filters").hidden = false;
  apply();
})();
