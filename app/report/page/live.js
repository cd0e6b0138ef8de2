// A page that `sotto watch` serves shows the newest state of its run, until that ends.
async function refresh() {
  const before = document.getElementById("state"), begin = performance.now();
  if (!("goesOn" in before.dataset)) return;
  try {
    if (!document.hidden) await takeUp(await fetch(location.href));
  } catch (error) {
    before.textContent = `no answer from sotto watch (${error.message}); what is below is old`;
  }
  setTimeout(refresh, Math.max(2000, 10 * (performance.now() - begin)));
}

async function takeUp(answer) {
  if (!answer.ok) throw new Error(await answer.text());
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  data = JSON.parse(fresh.getElementById("data").textContent);
  for (const id of ["state", "differences", "results", "notes", "commands"]) {
    document.getElementById(id).replaceWith(document.adoptNode(fresh.getElementById(id)));
  }
  for (const spec of data.plots) {
    const plot = curves.find(one => one.id === spec.id);
    if (plot) {
      plot.update(spec);
    } else {
      curves.push(new Curves(spec));
      document.getElementById("plots").append(curves.at(-1).figure);
      curves.at(-1).draw();
    }
  }
  allBars();
  for (const one of bars) one.draw();
}

if (document.getElementById("state")) setTimeout(refresh, 2000);
