// Puts the charts above the table of our tab. Locust's page knows tables only in tabs of others.
(() => {
  const frame = document.createElement("iframe");
  frame.src = "./headtohead/charts";
  frame.title = "Head to head, live";
  frame.style.cssText = "border: 0; width: 100%; height: 440px; display: block; margin-bottom: 16px";
  setInterval(() => {
    const shown = new URLSearchParams(location.search).get("tab") === "headtohead";
    const table = shown && document.querySelector("#root .MuiTableContainer-root, #root table");
    if (!table) {
      frame.remove();
    } else if (!frame.isConnected) {
      table.parentElement.insertBefore(frame, table);
    } else if (frame.contentDocument?.querySelector("main")) {
      frame.style.height = `${frame.contentDocument.querySelector("main").offsetHeight}px`;
    }
  }, 300);
  // Where a plan is given, a bar at the page's foot starts and stops its engines, before a run as well.
  fetch("./headtohead/arms").then((answer) => {
    if (!answer.ok) return;
    const bar = document.createElement("iframe");
    bar.src = "./headtohead/bar";
    bar.title = "Arms of the plan";
    bar.style.cssText = "border: 0; width: 100%; height: 44px; position: fixed; bottom: 0; left: 0; z-index: 2000";
    document.body.append(bar);
  });
})();
