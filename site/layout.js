import { posix } from 'node:path'
import { escapeHtml } from './highlight.js'

/** Runs before the first paint, so that the page does not flash in the other colors. */
const theme = `document.documentElement.dataset.theme=(()=>{try{return localStorage.tenureTheme}catch{}})()??(matchMedia('(prefers-color-scheme: dark)').matches?'dark':'light')`

/** No script may send a request: what a page needs is in its folder, and it loads nothing else. */
const policy =
  "connect-src 'none'; font-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'"

/**
 * Returns the whole page.
 * @param {import('./markdown.js').Page} page
 * @param {readonly import('./navigation.js').Group[]} menu
 * @param {string} repository
 */
export function layout(page, menu, repository) {
  const base = posix.relative(posix.dirname(page.path), '.') || '.'
  /** @param {string} path */
  const to = (path) => `${base}/${path}`
  const groups = menu.map(({ title, links }) => {
    const isHere = links.some(({ path }) => path === page.path)
    const items = links.map(
      ({ title, path }) =>
        `<li><a href="${to(path)}"${path === page.path ? ' aria-current="page"' : ''}>${escapeHtml(title)}</a></li>`,
    )
    return `<details${isHere || title === 'Start' || title === 'Guides' ? ' open' : ''}><summary>${escapeHtml(title)}</summary><ul>${items.join('')}</ul></details>`
  })
  const parts = page.sections.filter(({ level }) => level === 2 || level === 3)
  const outline = parts.map(
    ({ title, anchor, level }) =>
      `<li class="level-${level}"><a href="#${escapeHtml(anchor)}">${escapeHtml(title)}</a></li>`,
  )
  const title = page.path === 'index.html' ? 'Tenure: leader election for Node.js' : `${page.title} · Tenure`
  return `<!doctype html>
<html lang="en" data-base="${base}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="content-security-policy" content="${policy}">
<title>${escapeHtml(title)}</title>
<script>${theme}</script>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${to('assets/site.css')}">
<script src="${to('assets/site.js')}" defer></script>
</head>
<body>
<a class="skip" href="#site-content">Skip to the content</a>
<header>
<button type="button" class="menu" aria-expanded="false" aria-controls="site-menu" aria-label="Menu">☰</button>
<a class="home" href="${to('index.html')}">Tenure</a>
<div class="search" role="search">
<input type="search" placeholder="Search" aria-label="Search" autocomplete="off" spellcheck="false" role="combobox" aria-expanded="false" aria-controls="site-results">
<ol id="site-results" role="listbox" aria-label="Results" hidden></ol>
</div>
<button type="button" class="theme" aria-label="Light or dark colors">◐</button>
<a class="source" href="${repository}">GitHub</a>
</header>
<div class="columns">
<nav id="site-menu" aria-label="Pages">${groups.join('')}</nav>
<main id="site-content">
${page.html}
${page.edit ? `<p class="edit"><a href="${escapeHtml(page.edit)}">The source of this page</a></p>` : ''}
</main>
${outline.length > 1 ? `<aside aria-label="On this page"><b>On this page</b><ul>${outline.join('')}</ul></aside>` : '<aside></aside>'}
</div>
</body>
</html>
`
}
