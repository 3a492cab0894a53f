/**
 * How sections are indexed and found. The build and the browser must use the same options.
 * @type {import('minisearch').Options}
 */
export const searchOptions = {
  fields: ['title', 'page', 'text'],
  storeFields: ['page', 'title', 'start'],
  searchOptions: {
    boost: { title: 6, page: 3 },
    prefix: true,
    fuzzy: (term) => (term.length > 4 ? 0.15 : false),
    combineWith: 'AND',
  },
}
