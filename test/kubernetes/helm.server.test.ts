import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { deployment as ofManifests } from './deploy-manifests.ts'
import { kubeConfigOf } from './kube-config.ts'
import { parseObjects, readManifest, type Manifest } from './manifests.ts'
import { newTestNamespace } from './test-namespace.ts'
import type { ApiServer } from '../servers/cluster.ts'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import { describeWithCluster } from '../servers/suite.ts'

/** Returns the rules of a manifest for a Lease of another name. */
const rulesFor = (lease: string, file: string) =>
  JSON.parse(JSON.stringify(readManifest(file)['rules']).replaceAll('"my-app"', JSON.stringify(lease))) as object[]

describeWithCluster(
  'the library chart',
  (cluster) => {
    test('the library chart gives a program the same rights and variables as the manifests', async () => {
      const objects = parseObjects(await (await prepare(cluster()))('template', 'demo', './my-app', '-n', 'payments'))
      const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
      expect(names).toEqual(['ServiceAccount demo', 'Role demo', 'RoleBinding demo', 'Deployment demo'])
      for (const { metadata } of objects) expect(metadata).toMatchObject({ namespace: 'payments' })
      expect(find(objects, 'Role')['rules']).toEqual(rulesFor('demo', 'role.yaml'))
      const variables = (manifest: Manifest) =>
        (manifest as typeof ofManifests).spec.template.spec.containers
          .flatMap(({ env }) => env)
          .filter(({ name }) => name === 'POD_NAME' || name === 'POD_NAMESPACE')
      expect(variables(find(objects, 'Deployment'))).toEqual(variables(ofManifests))
      expect(JSON.stringify(find(objects, 'Deployment'))).toContain('{"name":"LEASE_NAME","value":"demo"}')
    })

    test('the values of the library chart set its names, rules, and service account', async () => {
      const helm = await prepare(cluster())
      const values = [
        'name=nightly',
        'watch=false',
        'events=true',
        'serviceAccount.create=false',
        'serviceAccount.name=me',
      ]
      const flags = values.flatMap((value) => ['--set', `tenure.${value}`])
      const objects = parseObjects(await helm('template', 'demo', './my-app', '-n', 'payments', ...flags))
      const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
      expect(names).toEqual(['Role nightly', 'RoleBinding nightly', 'Deployment demo'])
      const rulesOf = (component: string) => rulesFor('nightly', `components/${component}/role.yaml`)
      expect(find(objects, 'Role')['rules']).toEqual([...rulesOf('polling'), ...rulesOf('events')])
      expect(find(objects, 'RoleBinding')).toMatchObject({
        roleRef: { name: 'nightly' },
        subjects: [{ kind: 'ServiceAccount', name: 'me', namespace: 'payments' }],
      })
      expect(find(objects, 'Deployment')['spec']).toMatchObject({ template: { spec: { serviceAccountName: 'me' } } })
    })

    test('the API server accepts every field of the library chart, and helm installs it with working rights', async () => {
      const helm = await prepare(cluster())
      const objects = parseObjects(await helm('template', 'my-app', './my-app', '--set', 'tenure.events=true'))
      const tenant = await newTestNamespace(cluster(), [], find(objects, 'ServiceAccount'))
      onTestFinished(tenant.remove)
      const others = objects.filter(({ kind }) => kind !== 'ServiceAccount')
      for (const manifest of others) await tenant.create(manifest)
      await tenant.hasRight('watch', 'leases')
      await tenant.hasRight('create', 'events')

      const { admin, namespace } = cluster()
      await helm('install', 'demo', './my-app', '-n', namespace)
      const review = {
        user: `system:serviceaccount:${namespace}:demo`,
        resourceAttributes: {
          namespace,
          verb: 'update',
          group: 'coordination.k8s.io',
          resource: 'leases',
          name: 'demo',
        },
      }
      const isAllowed = async () => {
        const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews'
        return (await admin.request<{ status: object }>('POST', path, { spec: review })).body.status
      }
      await expect.poll(isAllowed, { timeout: 5_000 }).toMatchObject({ allowed: true })
      const deployment = await admin.request('GET', `/apis/apps/v1/namespaces/${namespace}/deployments/demo`)
      expect(deployment).toMatchObject({ status: 200, body: { spec: { replicas: 3 } } })
    })
  },
  { needs: [programs.helm] },
)

/** Prepares helm in a folder with copies of the charts, which leaves no other files. */
async function prepare(cluster: ApiServer) {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-helm-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  cpSync(join(import.meta.dirname, '../../deploy/helm'), folder, { recursive: true })
  const KUBECONFIG = join(folder, 'kubeconfig')
  writeFileSync(KUBECONFIG, kubeConfigOf(cluster))
  const homes = ['CACHE', 'CONFIG', 'DATA'].map((name) => [`HELM_${name}_HOME`, join(folder, name)])
  const env = { ...process.env, KUBECONFIG, ...Object.fromEntries(homes) }
  const helm = async (...args: string[]) =>
    (await promisify(execFile)(pathOf(programs.helm), args, { cwd: folder, env })).stdout
  await helm('dependency', 'update', './my-app')
  return helm
}

function find(objects: readonly Manifest[], wanted: string): Manifest {
  const found = objects.find(({ kind }) => kind === wanted)
  if (!found) throw new Error(`The output has no ${wanted}.`)
  return found
}
