// Who reads over a shoulder, or a screenshot, learns no whole token.
const token = /^#token=([A-Za-z0-9_-]{64})$/.exec(location.hash);
document.getElementById("token").textContent = token ? token[1].slice(0, 6) + "\u2026" : "none";
