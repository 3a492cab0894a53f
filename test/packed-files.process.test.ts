import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { packedFiles, packedFilesList, publishedFolders, withoutHashes } from '../scripts/packed-files.js'

const lists = JSON.parse(readFileSync(packedFilesList, 'utf8')) as Record<string, string[]>

test('the list of packed files has every published package', () => {
  expect(Object.keys(lists)).toEqual(publishedFolders())
})

test.each(publishedFolders())(
  '%s packs exactly the listed files (node scripts/packed-files.js writes the list)',
  (folder) => {
    expect(packedFiles(folder)).toEqual(lists[folder])
  },
)

test.each(publishedFolders())(
  '%s packs its README, its license and its manifest, and no source, test or map',
  (folder) => {
    const files = lists[folder] ?? []
    expect(files).toEqual(expect.arrayContaining(['README.md', 'LICENSE', 'package.json']))
    expect(files.filter((path) => /(^|\/)(src|test)\/|\.map$|(?<!\.d)\.ts$|\.env|\.npmrc/.test(path))).toEqual([])
  },
)

test('files of the build that differ only in their hash count as one', () => {
  const files = ['dist/run-B-UZANwh.js', 'dist/fence-file--qOerYSc.js', 'dist/main.js', 'dist/live-view.js']
  expect(withoutHashes(files)).toEqual(['dist/*-HASH.js', 'dist/live-view.js', 'dist/main.js'])
})
