// Gives each block of code a button that copies it, and says so to screen readers, too. A page without scripts, or without a
// clipboard, has none.

const status = document.createElement("p");
status.className = "spoken";
status.setAttribute("role", "status");

function copyButton(block) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const copied = await navigator.clipboard.writeText(block.textContent + "\n").then(() => true, () => false);
    button.textContent = status.textContent = copied ? "Copied" : "Not copied";
    setTimeout(() => {
      button.textContent = "Copy";
      status.textContent = "";
    }, 2000);
  });
  return button;
}

if (navigator.clipboard !== undefined) {
  document.querySelector("main").append(status);
  for (const block of document.querySelectorAll("main pre")) {
    const frame = document.createElement("div");
    frame.className = "code";
    block.replaceWith(frame);
    frame.append(block, copyButton(block));
  }
}
