
"use strict";
(function () {
  var match = /^#token=([A-Za-z0-9_-]{64})$/.exec(window.location.hash);
  var button = document.getElementById("onward");
  // Another link opened in this place changes the fragment only, and would be taken for this one.
  window.addEventListener("hashchange", function () {
    window.location.reload();
  });
  if (!match) {
    var main = document.querySelector("main");
    main.replaceChildren(document.getElementById("invalid").content.cloneNode(true));
    document.title = main.querySelector("h1").textContent;
    return;
  }
  document.getElementById("ask").hidden = false;
  button.addEventListener("click", function () {
    window.location.assign(button.dataset.page + "#token=" + match[1]);
  });
})();
