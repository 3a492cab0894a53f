import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findDeadLinks, findForeignFiles } from '../../site/check-pages.js'
import { renderDiagram } from '../../site/diagram.js'
import { pageOf, renderMarkdown } from '../../site/markdown.js'
import { navigation } from '../../site/navigation.js'

const context = { link: (href: string) => ({ href }) }

function folderOf(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-pages-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

test('a page has the path of its source, and README.md is the index of its folder', () => {
  expect(['README.md', 'docs/README.md', 'docs/guide/jobs.md'].map(pageOf)).toEqual([
    'index.html',
    'docs/index.html',
    'docs/guide/jobs.html',
  ])
})

test('a heading gets the anchor that GitHub gives it, and a repeated heading gets a number', () => {
  const { sections, title } = renderMarkdown('# A `lock`, or mutex\n\nFirst.\n\n## Why?\n\na | b\n\n## Why?', context)
  expect(title).toBe('A lock, or mutex')
  expect(sections.map(({ anchor, text }) => [anchor, text])).toEqual([
    ['a-lock-or-mutex', 'First.'],
    ['why', 'a | b'],
    ['why-1', ''],
  ])
})

test('the text of a section is found as it was written, without the tags of colors', () => {
  const { sections } = renderMarkdown('# A\n\n```ts\nif (a < \'b\' && "c") {}\n```', context)
  expect(sections[0]?.text).toBe(`if (a < 'b' && "c") {}`)
})

test('code blocks after the comment "tabs" become tabs, and others do not', () => {
  const blocks = '```ts\n1\n```\n\n```python\n2\n```\n'
  const { html } = renderMarkdown(`<!-- tabs -->\n\n${blocks}\nText.\n\n${blocks}`, context)
  expect([...html.matchAll(/role="tab" .*?>(\w+)<\/button>/g)].map(([, name]) => name)).toEqual([
    'TypeScript',
    'Python',
  ])
  expect(html.match(/role="tabpanel"/g)).toHaveLength(2)
  expect(html.match(/class="code"/g)).toHaveLength(4)
  expect(() => renderMarkdown('<!-- tabs -->\n\n```ts\n1\n```\n\n```ts\n2\n```', context)).toThrow(
    'TypeScript, TypeScript',
  )
})

test('code in a page is escaped, whether its language is known or not', () => {
  for (const language of ['ts', 'text', '']) {
    const { html } = renderMarkdown(`\`\`\`${language}\n<img src=x>\n\`\`\``, context)
    expect(html).toContain('&lt;')
    expect(html).not.toContain('<img')
  }
})

test('a flowchart becomes a list of arrows with the names of its nodes', () => {
  const html = renderDiagram(
    'flowchart LR\n  subgraph east [cluster east]\n    pod["candidate: web-0"] -- "asks" --> api\n  end\n  api <--> pod',
  )
  const rows = [...html.matchAll(/<li>(.*)<\/li>/g)].map(([, row = '']) => row.replaceAll(/<[^>]+>/g, '|'))
  expect(rows).toEqual([
    '|cluster east||candidate|: web-0 |→| |api||asks|',
    '|cluster east||api| |↔| |cluster east||candidate|',
  ])
  expect(() => renderDiagram('sequenceDiagram')).toThrow('sequenceDiagram')
})

test('the menu has the groups and pages of the index in their order, each page once', () => {
  const page = (path: string, title: string) => ({ path, title, html: '', sections: [], pictures: [] })
  const index =
    '# All\n\n## Guides: start\n\n[a](guide/a.md), [b](guide/b.md#part), [a](guide/a.md#x)\n\n## Empty\n\n[c](../c.md)'
  const menu = navigation(index, [page('docs/guide/a.html', 'A'), page('docs/guide/b.html', 'B')], [])
  expect(menu[1]).toEqual({
    title: 'Guides',
    links: [
      { title: 'A', path: 'docs/guide/a.html' },
      { title: 'B', path: 'docs/guide/b.html' },
    ],
  })
  expect(menu.map(({ title }) => title)).not.toContain('Empty')
})

test('dead links, missing anchors and repeated anchors in pages are reported', () => {
  const folder = folderOf({
    'index.html': '<h1 id="a">A</h1><a href="b/c.html#here">c</a> <a href="b/c.html#gone">c</a> <a href="#a">a</a>',
    'b/c.html':
      '<h1 id="here">C</h1><a class="x" href="../gone.html">d</a> <img alt="" src="e.svg"> <a href="https://example.com">f</a>',
  })
  expect(findDeadLinks(folder).toSorted()).toEqual([
    'b/c.html links to ../gone.html, which does not exist',
    'b/c.html links to e.svg, which does not exist',
    'index.html links to b/c.html#gone, which does not exist',
  ])
  expect(findDeadLinks(folderOf({ 'a.html': '<p id="x"></p><p id="x"></p>' }))).toEqual([
    'a.html has the anchor x twice',
  ])
})

test('files from another host are reported, and links that a reader follows are not', () => {
  const folder = folderOf({
    'a.html': '<a href="https://example.com">a</a> <script defer src="https://cdn.example.com/a.js"></script>',
    'b.html': '<link rel="stylesheet" href="//cdn.example.com/b.css"> <img alt="" src="b.png"> url(https://c)',
    'c.css':
      '@import "https://fonts.example.com/c"; a { background: url(d.png) } b { src: url("https://d.example.com/d.woff2") }',
    'e.svg': '<svg xmlns="http://www.w3.org/2000/svg"><image href="http://e.example.com/e.png" /></svg>',
  })
  expect(findForeignFiles(folder).toSorted()).toEqual([
    'a.html loads https://cdn.example.com/a.js',
    'b.html loads //cdn.example.com/b.css',
    'c.css loads https://d.example.com/d.woff2',
    'c.css loads https://fonts.example.com/c',
    'e.svg loads http://e.example.com/e.png',
  ])
})
