
"use strict";
(function () {
  var ask = document.getElementById("ask");
  var button = document.getElementById("confirm");
  var state = document.getElementById("state");
  var match = /^#token=([A-Za-z0-9_-]{64})$/.exec(window.location.hash);
  var isBusy = false;

  function words(name) {
    return document.getElementById(name).content.cloneNode(true);
  }

  // The button goes; a reader who cannot see the page is led to what stands there instead.
  function end(name) {
    var main = document.querySelector("main");
    main.replaceChildren(words(name));
    var heading = main.querySelector("h1");
    document.title = heading.textContent;
    heading.tabIndex = -1;
    heading.focus();
    var onward = main.querySelector("a.button");
    if (onward) {
      window.location.replace(onward.href);
    }
  }

  function say(name) {
    state.replaceChildren(words(name));
  }

  function again(name) {
    isBusy = false;
    say(name);
  }

  function answered(response) {
    if (response.ok) {
      end("verified");
      return undefined;
    }
    return response.json().then(function (problem) {
      var name = String(problem.type).replace("urn:postlease:problem:", "");
      if (/^token-(expired|superseded|invalid)$/.test(name)) {
        end(name);
      } else {
        again(name === "too-many-requests" ? name : "again");
      }
    });
  }

  // Another link opened in this place changes the fragment only, and would be taken for this one.
  window.addEventListener("hashchange", function () {
    window.location.reload();
  });
  if (!match) {
    // Who comes without a link has a code, or a link to paste.
    end(window.location.hash ? "token-invalid" : "without-token");
    return;
  }
  ask.hidden = false;
  button.addEventListener("click", function () {
    // Not disabled meanwhile: that would take the keyboard's place away.
    if (isBusy) {
      return;
    }
    isBusy = true;
    say("waiting");
    fetch("v1/verifications", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token: match[1] }),
      credentials: "omit",
      referrerPolicy: "no-referrer"
    }).then(answered).catch(function () {
      again("again");
    });
  });
})();
