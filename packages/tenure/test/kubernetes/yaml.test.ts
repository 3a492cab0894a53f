import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { stringify, type ToStringOptions } from 'yaml'
import { parseYaml, YamlError, type YamlValue } from '../../src/kubernetes/yaml.ts'
import { parsedByPackage } from './yaml-oracle.ts'

const map = (entries: Record<string, YamlValue>): YamlValue => new Map(Object.entries(entries))

function failureOf(text: string): { line: number; message: string } {
  try {
    parseYaml(text)
  } catch (error) {
    if (error instanceof YamlError) return { line: error.line, message: error.message }
    throw error
  }
  throw new Error(`understood: ${JSON.stringify(text)}`)
}

describe('reads kubeconfigs as they are written by', () => {
  test('kubectl, with sequences at the indentation of their key', () => {
    const text = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTg==
    server: https://10.0.0.1:6443
  name: production
contexts:
- context:
    cluster: production
    namespace: jobs
    user: deploy
  name: deploy@production
current-context: deploy@production
kind: Config
preferences: {}
users:
- name: deploy
  user:
    token: abc.def-ghi_jkl
`
    expect(parseYaml(text)).toEqual(
      map({
        apiVersion: 'v1',
        clusters: [
          map({
            cluster: map({
              'certificate-authority-data': 'LS0tLS1CRUdJTg==',
              server: 'https://10.0.0.1:6443',
            }),
            name: 'production',
          }),
        ],
        contexts: [
          map({
            context: map({ cluster: 'production', namespace: 'jobs', user: 'deploy' }),
            name: 'deploy@production',
          }),
        ],
        'current-context': 'deploy@production',
        kind: 'Config',
        preferences: map({}),
        users: [map({ name: 'deploy', user: map({ token: 'abc.def-ghi_jkl' }) })],
      }),
    )
  })

  test('kubectl without any cluster', () => {
    const text = 'apiVersion: v1\nclusters: null\ncontexts: []\ncurrent-context: ""\nkind: Config\nusers:\n'
    expect(parseYaml(text)).toEqual(
      map({ apiVersion: 'v1', clusters: null, contexts: [], 'current-context': '', kind: 'Config', users: null }),
    )
  })

  test('kind', () => {
    const text = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: QUJD
    server: https://127.0.0.1:38475
  name: kind-kind
contexts:
- context:
    cluster: kind-kind
    user: kind-kind
  name: kind-kind
current-context: kind-kind
kind: Config
users:
- name: kind-kind
  user:
    client-certificate-data: REVG
    client-key-data: R0hJ
`
    expect(parseYaml(text)).toEqual(
      map({
        apiVersion: 'v1',
        clusters: [
          map({
            cluster: map({ 'certificate-authority-data': 'QUJD', server: 'https://127.0.0.1:38475' }),
            name: 'kind-kind',
          }),
        ],
        contexts: [map({ context: map({ cluster: 'kind-kind', user: 'kind-kind' }), name: 'kind-kind' })],
        'current-context': 'kind-kind',
        kind: 'Config',
        users: [
          map({ name: 'kind-kind', user: map({ 'client-certificate-data': 'REVG', 'client-key-data': 'R0hJ' }) }),
        ],
      }),
    )
  })

  test('minikube, with extensions and paths', () => {
    const text = `apiVersion: v1
clusters:
- cluster:
    certificate-authority: /srv/minikube/ca.crt
    extensions:
    - extension:
        last-update: Tue, 04 Mar 2025 10:11:12 CET
        provider: minikube.sigs.k8s.io
        version: v1.35.0
      name: cluster_info
    server: https://192.168.49.2:8443
  name: minikube
users:
- name: minikube
  user:
    client-certificate: C:\\minikube\\client.crt
    client-key: /srv/minikube/profiles/my profile/client.key
`
    expect(parseYaml(text)).toEqual(
      map({
        apiVersion: 'v1',
        clusters: [
          map({
            cluster: map({
              'certificate-authority': '/srv/minikube/ca.crt',
              extensions: [
                map({
                  extension: map({
                    'last-update': 'Tue, 04 Mar 2025 10:11:12 CET',
                    provider: 'minikube.sigs.k8s.io',
                    version: 'v1.35.0',
                  }),
                  name: 'cluster_info',
                }),
              ],
              server: 'https://192.168.49.2:8443',
            }),
            name: 'minikube',
          }),
        ],
        users: [
          map({
            name: 'minikube',
            user: map({
              'client-certificate': 'C:\\minikube\\client.crt',
              'client-key': '/srv/minikube/profiles/my profile/client.key',
            }),
          }),
        ],
      }),
    )
  })

  test('k3s, with sequences that are indented deeper', () => {
    const text = `---
apiVersion: v1
clusters:
  - cluster:
      server: https://127.0.0.1:6443
    name: default
contexts:
  -
    context:
      cluster: default
      user: default
    name: default
`
    expect(parseYaml(text)).toEqual(
      map({
        apiVersion: 'v1',
        clusters: [map({ cluster: map({ server: 'https://127.0.0.1:6443' }), name: 'default' })],
        contexts: [map({ context: map({ cluster: 'default', user: 'default' }), name: 'default' })],
      }),
    )
  })

  test('the aws command line, with colons in names and a plugin', () => {
    const text = `users:
- name: arn:aws:eks:eu-central-1:111122223333:cluster/jobs
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      args:
      - --region
      - eu-central-1
      - eks
      - get-token
      - --output
      - json
      command: aws
      env:
      - name: AWS_PROFILE
        value: default
`
    expect(parseYaml(text)).toEqual(
      map({
        users: [
          map({
            name: 'arn:aws:eks:eu-central-1:111122223333:cluster/jobs',
            user: map({
              exec: map({
                apiVersion: 'client.authentication.k8s.io/v1beta1',
                args: ['--region', 'eu-central-1', 'eks', 'get-token', '--output', 'json'],
                command: 'aws',
                env: [map({ name: 'AWS_PROFILE', value: 'default' })],
              }),
            }),
          }),
        ],
      }),
    )
  })

  test('gcloud, with a hint that is folded over two lines', () => {
    const text = `    exec:
      command: gke-gcloud-auth-plugin
      installHint: Install gke-gcloud-auth-plugin for use with kubectl by following
        https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl
      provideClusterInfo: true
`
    expect(parseYaml(text)).toEqual(
      map({
        exec: map({
          command: 'gke-gcloud-auth-plugin',
          installHint:
            'Install gke-gcloud-auth-plugin for use with kubectl by following https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl',
          provideClusterInfo: true,
        }),
      }),
    )
  })

  test('programs that write JSON', () => {
    const value = {
      kind: 'Config',
      users: [{ name: 'a', user: { token: 'x', 'as-groups': [] } }],
      extra: null,
      ok: true,
    }
    const expected = map({
      kind: 'Config',
      users: [map({ name: 'a', user: map({ token: 'x', 'as-groups': [] }) })],
      extra: null,
      ok: true,
    })
    for (const indent of [undefined, 2, '\t']) expect(parseYaml(JSON.stringify(value, null, indent))).toEqual(expected)
  })

  test('people: comments, quotes, wrapped data, Windows line ends', () => {
    const text = `\ufeff# my clusters
"server" : 'https://it''s.example' # quoted

token: "a\\tb\\u0041\\x42\\
  C"
literal: |
  QUJD
  REVG
folded: >-
  QUJD
  REVG

kept: |+
  x

flow: {a: b, 'c d': [e, "f", {}], # inside
  g: ~,
}
fragment: https://example.com/#top
`
    const expected = map({
      server: "https://it's.example",
      token: 'a\tbABC',
      literal: 'QUJD\nREVG\n',
      folded: 'QUJD REVG',
      kept: 'x\n\n',
      flow: map({ a: 'b', 'c d': ['e', 'f', map({})], g: null }),
      fragment: 'https://example.com/#top',
    })
    expect(parseYaml(text)).toEqual(expected)
    expect(parseYaml(text.replaceAll('\n', '\r\n'))).toEqual(expected)
  })
})

test('only true, false and null are no text', () => {
  expect(parseYaml('[true, False, null, ~, yes, off, 1, 0x1F, 1e3, .nan, 2024-01-01, "true", \'null\']')).toEqual([
    true,
    false,
    null,
    null,
    'yes',
    'off',
    '1',
    '0x1F',
    '1e3',
    '.nan',
    '2024-01-01',
    'true',
    'null',
  ])
})

test('an empty document is null', () => {
  for (const text of ['', '\n', '# nothing\n', '---\n', '---\n# nothing']) expect(parseYaml(text)).toBeNull()
})

test('a key such as __proto__ is a key like any other', () => {
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
  ['an alias', 'a: 1\n\nb: *x', 3],
  ['a tag', 'a: !!str 2', 1],
  ['a tag on a key', '!x a: 2', 1],
  ['a merge key', 'a:\n  <<: {b: c}', 2],
  ['a directive', '%YAML 1.2\n---\na: b', 1],
  ['a second document', 'a: b\n---\nc: d', 2],
  ['the end of a document', 'a: b\n...\n', 2],
  ['a tab as indentation', 'a:\n\tb: c', 2],
  ['a tab behind spaces of an indentation', 'a:\n  \tb: c', 2],
  ['a tab in a text block', 'a: |\n\tb', 2],
  ['a key that is there twice', 'a: 1\nb: 2\na: 3', 3],
  ['a key that is there twice, once in quotes', 'a: 1\n"a": 2', 2],
  ['a key that is there twice in brackets', '{"a": 1,\n"a": 2}', 2],
  ['a key marked by a question mark', '? a\n: b', 1],
  ['a key without a name', ': b', 1],
  ['a bracket as a key', '{a: b}: c', 1],
  ['two keys in a line', 'a: b: c', 1],
  ['a mapping behind a value', 'a: b\n  c: d', 2],
  ['an item behind a key', 'a: - b', 1],
  ['an indentation that fits nothing', 'a:\n    b: c\n  d: e', 3],
  ['an item that is indented deeper than the one above', 'a:\n- b\n - c\nd: "e"\n  f: g', 5],
  ['an item among keys', 'a: b\n- c', 2],
  ['a key without a colon', 'a: b\nc', 2],
  ['a key without a blank behind its colon', 'a:b', 1],
  ['a text alone', 'hello', 1],
  ['a quote that is not closed', 'a: b\nc: "d\ne: f', 3],
  ['a quote that nothing closes', 'a: b\nc: "d\n  e: f', 2],
  ['text behind a quote', 'a: "b" c', 1],
  ['an unknown escape', 'a: "\\q"', 1],
  ['half an escape', 'a: "\\u00"', 1],
  ['an escape beyond Unicode', 'a: "\\UFFFFFFFF"', 1],
  ['a bracket that is not closed', 'a: 1\nb: {c: d,\n', 2],
  ['a wrong bracket', 'a: [b}', 1],
  ['an entry that is left out', 'a: [b,,c]', 1],
  ['a key without a value in brackets', 'a: {b}', 1],
  ['a pair without brackets of its own', 'a: [b: c]', 1],
  ['a comment without a blank before it', 'a: "b"#c', 1],
  ['a text that tells its own indentation', 'a: |2\n  b', 1],
  ['a control character', 'a: b\u0000c', 1],
  ['a lone carriage return', 'a: b\rc: d', 1],
  ['a line break of old', 'a: b\u0085c: d', 1],
])('%s is refused with its line', (_, text, line) => {
  expect(failureOf(text).line).toBe(line)
})

test('what goes too deep is refused, however it is written', () => {
  const deep = 200_000
  for (const text of ['['.repeat(deep), '{"a":'.repeat(deep), '- '.repeat(deep)]) {
    expect(failureOf(text).message).toBe('line 1: it goes deeper than 64 levels')
  }
  const staircase = Array.from({ length: 100 }, (_, i) => `${' '.repeat(i)}a:`).join('\n')
  expect(failureOf(staircase)).toEqual({ line: 65, message: 'line 65: it goes deeper than 64 levels' })
})

test('a failure shows nothing of the text, which may hold secrets', () => {
  const secret = 's3cr3t'
  for (const text of [`token: ${secret}: x`, `token: "${secret}`, `${secret}`, `t: [${secret}`, `a: "\\q${secret}"`]) {
    expect(failureOf(text).message).not.toContain('s3')
  }
})

test('long input takes no longer than its length', () => {
  const long = 300_000
  const inputs = [
    `a: ${'x '.repeat(long)}`,
    `a: "${' '.repeat(long)}\n${' '.repeat(long)}"`,
    `a: ${' '.repeat(long)}b`,
    `a: b${'\n'.repeat(long)}`,
    `a:${'\n  b'.repeat(long / 3)}`,
    `a: >\n${'  b\n\n'.repeat(long / 3)}`,
    `a: |\n${'\n'.repeat(long)}`,
    Array.from({ length: long / 10 }, (_, i) => `k${i}: v`).join('\n\n'),
    `[${'a, '.repeat(long / 3)}]`,
    `a: '${"''".repeat(long)}'`,
    `a: b${' #'.repeat(long)}`,
  ]
  const started = performance.now()
  for (const text of inputs) parseYaml(text)
  // A quadratic step would take minutes.
  expect(performance.now() - started).toBeLessThan(10_000)
})

describe('agrees with the package yaml', () => {
  const scalar = fc.oneof(
    fc.string({ maxLength: 12 }),
    fc.string({
      unit: fc.constantFrom('a', ' ', '\n', ':', '#', '-', '"', "'", '\\', '{', ',', 'é', '😀'),
      maxLength: 12,
    }),
    fc.constantFrom('true', 'null', '~', '', 'LS0tLS1CRUdJTg==', '12', '- a', 'a: b', '__proto__', 'two words'),
    fc.boolean(),
    fc.constant(null),
  )
  const key = fc.oneof(fc.constantFrom('a', 'b c', 'true', '__proto__', ''), fc.string({ maxLength: 8 }))
  const { value } = fc.letrec<{ value: YamlValue }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      scalar,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.array(fc.tuple(key, tie('value')), { maxLength: 4 }).map((entries) => new Map(entries)),
    ),
  }))
  const style: fc.Arbitrary<ToStringOptions> = fc.record({
    indent: fc.constantFrom(2, 4),
    indentSeq: fc.boolean(),
    lineWidth: fc.constantFrom(0, 20, 80),
    defaultStringType: fc.constantFrom('PLAIN' as const, 'QUOTE_DOUBLE' as const, 'QUOTE_SINGLE' as const),
    defaultKeyType: fc.constantFrom('PLAIN' as const, 'QUOTE_DOUBLE' as const),
  })
  // Inside brackets a text without quotes must end in its line.
  const bracketed = fc.constant<ToStringOptions>({ collectionStyle: 'flow', defaultStringType: 'QUOTE_DOUBLE' })

  test('what it writes is read, unless it needs what is refused', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(key, value), { minLength: 1, maxLength: 4 }),
        fc.oneof(style, bracketed),
        (entries, options) => {
          const root = new Map(entries)
          const text = stringify(root, { ...options, aliasDuplicateObjects: false })
          // Keys of many lines, and texts that begin with blanks.
          fc.pre(!/^\s*(- )*\? |[|>][-+]?\d/m.test(text))
          // The package itself does not read back every text that it folds.
          fc.pre(isDeepStrictEqual(parsedByPackage(text)?.value, root))
          expect(parseYaml(text)).toEqual(root)
        },
      ),
      { numRuns: 500 },
    )
  })

  test('what is read of any text, it reads likewise', () => {
    const pieces = [
      'a',
      'key',
      '- ',
      '-',
      ': ',
      ':',
      '\n',
      '\n  ',
      '\n ',
      '\n    ',
      '\n- ',
      '\n  - ',
      ' ',
      '"',
      "'",
      '#',
    ]
    const more = [
      ' # c',
      '{',
      '}',
      '[',
      ']',
      ', ',
      '|',
      '>',
      '|-',
      '>+',
      '~',
      'true',
      '\\',
      '\\n',
      '\t',
      '&x',
      '*x',
      '!t',
    ]
    const rest = ['? ', '---', '...', '<<', '@', '%', 'a: b', 'x: y\n', '\n  k: v', '\nk: ', '"q"', "'s'", '\r\n', '""']
    const text = fc.array(fc.constantFrom(...pieces, ...more, ...rest), { maxLength: 16 }).map((all) => all.join(''))
    let understood = 0
    fc.assert(
      fc.property(text, (unended) => {
        // The package disagrees with itself about a last line without an end, and about lines of tabs alone.
        const whole = `${unended}\n`
        fc.pre(!/^ *\t\s*$/m.test(whole))
        let read: YamlValue
        try {
          read = parseYaml(whole)
        } catch (error) {
          expect(error).toBeInstanceOf(YamlError)
          return
        }
        understood++
        expect(parsedByPackage(whole)).toEqual({ value: read })
      }),
      { numRuns: 5_000 },
    )
    expect(understood).toBeGreaterThan(100)
  })
})
