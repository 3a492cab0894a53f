/** The menu of all pages, in the order of the index `docs/README.md`. */

/**
 * @typedef {{ title: string, links: { title: string, path: string }[] }} Group
 * @typedef {import('./markdown.js').Page} Page
 */

/**
 * @param {string} index The Markdown of the index.
 * @param {readonly Page[]} pages
 * @param {readonly Page[]} reference
 * @returns {Group[]}
 */
export function navigation(index, pages, reference) {
  const byPath = new Map(pages.map((page) => [page.path, page]))
  const groups = index
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [heading = '', ...lines] = section.split('\n')
      const links = [...lines.join('\n').matchAll(/\]\((?!\.\.|http)([^)#]+)\.md[^)]*\)/g)].flatMap(([, link = '']) => {
        const path = `docs/${link}.html`.replace(/README\.html$/, 'index.html')
        const page = byPath.get(path)
        return page ? [{ title: page.title, path }] : []
      })
      const unique = links.filter(({ path }, at) => links.findIndex((link) => link.path === path) === at)
      return { title: heading.replace(/:.*/, ''), links: unique }
    })
  return [
    {
      title: 'Start',
      links: [
        { title: 'Tenure', path: 'index.html' },
        { title: 'All pages', path: 'docs/index.html' },
      ],
    },
    ...groups.filter(({ links }) => links.length > 0),
    { title: 'Entry points', links: reference.map(({ title, path }) => ({ title, path })) },
    {
      title: 'Project',
      links: ['ARCHITECTURE', 'CONTRIBUTING', 'SECURITY', 'CHANGELOG'].map((name) => ({
        title: byPath.get(`${name}.html`)?.title ?? name,
        path: `${name}.html`,
      })),
    },
  ]
}
