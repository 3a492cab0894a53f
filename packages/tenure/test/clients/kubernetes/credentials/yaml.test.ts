import { describe, expect, test } from 'vitest'
import { parseYaml, YamlError, type YamlValue } from '../../../../src/clients/kubernetes/credentials/yaml.ts'

const map = (entries: Record<string, YamlValue>): YamlValue => new Map(Object.entries(entries))

function failureOf(text: string): { line: number; message: string } {
  try {
    parseYaml(text)
  } catch (error) {
    if (error instanceof YamlError) return { line: error.line, message: error.message }
    throw error
  }
  throw new Error(`accepted: ${JSON.stringify(text)}`)
}

describe('parseYaml reads kubeconfigs', () => {
  test('parseYaml reads kubeconfigs of kubectl, kind and cloud providers', () => {
    const text = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTg==
    server: https://10.0.0.1:6443
  name: arn:aws:eks:eu-central-1:111122223333:cluster/jobs
contexts: null
current-context: ""
preferences: {}
users:
- name: 007
  user:
    exec:
      args:
      - --region
      installHint: Install gke-gcloud-auth-plugin for use with kubectl by following
        https://cloud.google.com/kubernetes-engine
      provideClusterInfo: true
`
    const cluster = map({
      'certificate-authority-data': 'LS0tLS1CRUdJTg==',
      server: 'https://10.0.0.1:6443',
    })
    const installHint =
      'Install gke-gcloud-auth-plugin for use with kubectl by following https://cloud.google.com/kubernetes-engine'
    const exec = map({ args: ['--region'], installHint, provideClusterInfo: true })
    const expected = map({
      apiVersion: 'v1',
      clusters: [map({ cluster, name: 'arn:aws:eks:eu-central-1:111122223333:cluster/jobs' })],
      contexts: null,
      'current-context': '',
      preferences: map({}),
      users: [map({ name: '007', user: map({ exec }) })],
    })
    expect(parseYaml(text)).toEqual(expected)
    expect(parseYaml(`\ufeff---\n${text.replaceAll('\n', '\r\n')}`)).toEqual(expected)
  })

  test('parseYaml reads JSON', () => {
    const value = { users: [{ name: 'a', user: { token: 'x', 'as-groups': [] } }], extra: null, ok: true }
    const user = map({ token: 'x', 'as-groups': [] })
    const expected = map({ users: [map({ name: 'a', user })], extra: null, ok: true })
    for (const indent of [undefined, 2, '\t']) expect(parseYaml(JSON.stringify(value, null, indent))).toEqual(expected)
  })
})

test('parseYaml reads everything but true, false and null as text', () => {
  const text = '[true, False, null, ~, yes, 1, 0x1F, 1e3, .nan, 2024-01-01, "true", \'null\', ""]'
  const texts = ['yes', '1', '0x1F', '1e3', '.nan', '2024-01-01', 'true', 'null', '']
  expect(parseYaml(text)).toEqual([true, false, null, null, ...texts])
  expect(parseYaml('a:\nb: |\n  true\n')).toEqual(map({ a: null, b: 'true\n' }))
})

test('parseYaml reads an empty document as null', () => {
  for (const text of ['', '\n', '# nothing\n', '---\n', '---\n# nothing']) expect(parseYaml(text)).toBeNull()
})

test('parseYaml treats a key such as __proto__ like any other', () => {
  const value = parseYaml('__proto__: {polluted: "yes"}\nconstructor: {"__proto__": x}\n')
  expect(value).toEqual(
    new Map<string, YamlValue>([
      ['__proto__', map({ polluted: 'yes' })],
      ['constructor', new Map([['__proto__', 'x']])],
    ]),
  )
  expect(Reflect.get({}, 'polluted')).toBeUndefined()
})

test.each([
  ['an anchor', 'a: 1\nb: &x 2', 2],
  ['an anchor on a mapping', 'a:\n  b: &x\n    c: d', 2],
  ['an anchor on a key', 'a: 1\n&x b: 2', 2],
  ['an alias', 'a: 1\n\nb: *x', 3],
  ['a tag', 'a: !!str 2', 1],
  ['a tag on a key', '!x a: 2', 1],
  ['a merge key', 'a:\n  <<: {b: c}', 2],
  ['a directive', '%YAML 1.2\n---\na: b', 1],
  ['a second document', 'a: b\n---\nc: d', 2],
  ['a tab as indentation', 'a:\n\tb: c', 2],
  ['a duplicate key', 'a: 1\nb: 2\na: 3', 3],
  ['a duplicate key, once in quotes', 'a: 1\n"a": 2', 2],
  ['a duplicate key in JSON', '{"a": 1,\n"a": 2}', 2],
  ['a bracket as a key', '{a: b}: c', 1],
  ['an inconsistent indentation', 'a:\n    b: c\n  d: e', 3],
  ['an unclosed quote', 'a: b\nc: "d\n  e: f', 3],
  ['an unknown escape', 'a: "\\q"', 1],
  ['a control character', 'a: b\u0000c', 1],
  ['a lone carriage return', 'a: b\rc: d', 1],
  ['a line break that only some parsers know', 'a: b\nc: d\u0085e: f', 2],
])('parseYaml refuses %s and names its line', (_, text, line) => {
  expect(failureOf(text).line).toBe(line)
})

test('parseYaml refuses deep nesting in any notation', () => {
  const deep = 5_000
  for (const text of ['['.repeat(deep), '{"a":'.repeat(deep), '- '.repeat(deep)]) {
    expect(failureOf(text).message).toBe('line 1: it is nested deeper than 64 levels')
  }
  const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
  expect(parseYaml(nested(64))).toHaveLength(1)
  expect(failureOf(nested(65)).message).toBe('line 1: it is nested deeper than 64 levels')
})

test('parseYaml refuses text that is too long before parsing it', () => {
  expect(failureOf(`a: ${'&x '.repeat(2 ** 21)}`).message).toBe('line 1: it is longer than 4194304 characters')
})

test('parseYaml compares thousands of keys in linear time', () => {
  const count = 10_000
  const text = Array.from({ length: count }, (_, i) => `k${i}: v`).join('\n')
  const started = performance.now()
  expect(parseYaml(text)).toHaveProperty('size', count)
  expect(failureOf(`${text}\nk0: v`).line).toBe(count + 1)
  // Comparing every pair of keys would take minutes.
  expect(performance.now() - started).toBeLessThan(20_000)
})

test('an error from parseYaml does not quote the text, which may contain secrets', () => {
  const secret = 's3cr3t'
  for (const text of [
    `token: ${secret}: x`,
    `token: "${secret}`,
    `t: [${secret}`,
    `a: "\\q${secret}"`,
    `a: *${secret}`,
  ]) {
    expect(failureOf(text).message).not.toContain('s3')
  }
})
