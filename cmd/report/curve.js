// SPDX-License-Identifier: Apache-2.0
"use strict";
{
  const number = (value) => (value === 0 ? "" : Number(value.toPrecision(4)).toString());
  document.getElementById("title").textContent = `${data.model}: throughput over GPUs`;
  document.getElementById("summary").textContent =
    `The highest throughput with at most so many GPUs, for ${data.batch} samples per step; dots are plans that use all of them.`;
  const drawing = new DOMParser().parseFromString(data.svg, "image/svg+xml").documentElement;
  document.getElementById("drawing").append(document.importNode(drawing, true));
  for (const point of data.points) {
    const row = document.createElement("tr");
    const cells = [point.gpus, point.plan, number(point.seconds), number(point.throughput), number(point.slope)];
    cells.forEach((text, column) => {
      const cell = row.insertCell();
      cell.textContent = text;
      if (column !== 1) cell.className = "numeric";
    });
    document.getElementById("points").append(row);
  }
}
