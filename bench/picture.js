// Draws bar charts as an SVG that is readable on light and dark pages.

/**
 * @typedef {object} Panel
 * @property {string} title
 * @property {{ label: string, value: number, text: string, isOurs: boolean }[]} bars
 * @property {{ value: number, text: string }} [mark] a line through all bars
 */

const width = 860
const labelWidth = 250
/** Space for the text after each bar. */
const textWidth = 170
const barWidth = width - labelWidth - textWidth
const rowHeight = 20
const titleHeight = 44

const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .label { text-anchor: end }
  .ours { fill: #2f6fdb }
  .theirs { fill: #8c959f }
  .mark { stroke: #cf222e; stroke-dasharray: 3 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .ours { fill: #539bf5 }
    .theirs { fill: #768390 }
    .mark { stroke: #f47067 }
  }
`

/** @param {Panel[]} panels each with its own scale */
export function picture(panels) {
  let top = 0
  const parts = panels.map((panel) => {
    const part = drawPanel(panel, top)
    top += titleHeight + panel.bars.length * rowHeight
    return part
  })
  const height = top + 8
  const names = panels.map(({ title }) => title).join('. ')
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>${escaped(names)}</title>
<style>${style}</style>
${parts.join('\n')}
</svg>
`
}

/** @param {Panel} panel @param {number} top */
function drawPanel({ title, bars, mark }, top) {
  const most = Math.max(...bars.map(({ value }) => value), mark?.value ?? 0)
  const scaled = (/** @type {number} */ value) => Math.max(1, Math.round((value / most) * barWidth))
  const rowsTop = top + titleHeight
  const lines = [`<text class="title" x="0" y="${top + 18}">${escaped(title)}</text>`]
  bars.forEach(({ label, value, text, isOurs }, index) => {
    const y = rowsTop + index * rowHeight
    const length = scaled(value)
    lines.push(
      `<text class="label" x="${labelWidth - 8}" y="${y + 14}">${escaped(label)}</text>`,
      `<rect class="${isOurs ? 'ours' : 'theirs'}" x="${labelWidth}" y="${y + 3}" width="${length}" height="${rowHeight - 6}"/>`,
      `<text x="${labelWidth + length + 6}" y="${y + 14}">${escaped(text)}</text>`,
    )
  })
  if (mark) {
    const x = labelWidth + scaled(mark.value)
    lines.push(
      `<line class="mark" x1="${x}" x2="${x}" y1="${rowsTop - 4}" y2="${rowsTop + bars.length * rowHeight}"/>`,
      `<text x="${x + 4}" y="${rowsTop - 6}">${escaped(mark.text)}</text>`,
    )
  }
  return lines.join('\n')
}

/** @param {string} text */
function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
