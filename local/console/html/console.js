// Comfort only: without it every page can be read and every button pressed.
"use strict";

const SECONDS = 3;
const button = document.getElementById("live");
const regions = () => document.querySelectorAll("[data-live]");

function isMarked(region) {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(region, true);
}

function replace(fresh) {
  for (const old of regions()) {
    const found = fresh.querySelector(`[data-live="${old.dataset.live}"]`);
    // What has the focus, or holds it, stays as it is: nobody is thrown off a button. So does what
    // somebody marked, to copy it.
    const isFocused = old.contains(document.activeElement) && old !== document.activeElement;
    const isHeld = isFocused || isMarked(old);
    if (found && !isHeld && found.innerHTML !== old.innerHTML) {
      old.innerHTML = found.innerHTML;
    }
  }
}

async function look() {
  if (document.hidden || button.getAttribute("aria-pressed") !== "true") {
    return;
  }
  try {
    const answer = await fetch(location.href.split("#")[0]);
    if (answer.ok) {
      replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    }
  } catch {
    // The stack has ended, or is busy; the next look tells.
  }
}

if (button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const isOn = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!isOn));
  });
  const turn = () => look().finally(() => setTimeout(turn, SECONDS * 1000));
  setTimeout(turn, SECONDS * 1000);
}
