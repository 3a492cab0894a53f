import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { whyNoKubectl } from '../kubernetes/kubectl.ts'
import { inNamespace, parseObjects, type Manifest } from '../kubernetes/manifests.ts'
import { applyTo, base, components, files, folder, isPatch, pathOf, readManifest, readme } from './manifests.ts'
import { describeWithCluster, describeWithRight } from '../servers/suite.ts'
import { findBlocks } from '../documents.ts'

interface Deployment extends Manifest {
  readonly spec: {
    readonly template: {
      readonly metadata: object
      readonly spec: {
        readonly containers: readonly {
          readonly env: readonly { readonly name: string; readonly value?: string }[]
          readonly envFrom: readonly object[]
          readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[]
        }[]
      }
    }
  }
}
const isDeployment = (manifest: Manifest): manifest is Deployment => manifest.kind === 'Deployment'
const isDeletion = (manifest: Manifest) => '$patch' in manifest

describeWithCluster('deploy/multicluster on a real API server', (cluster) => {
  beforeAll(async () => {
    for (const manifest of base) await applyTo(cluster(), manifest)
  })

  test('the API server accepts every field of deploy/multicluster', async () => {
    for (const manifest of base) {
      const { status } = await cluster().admin.request('GET', pathOf(manifest))
      expect(status, manifest.kind).toBe(200)
    }
    const deployment = base.find(isDeployment)
    if (!deployment) throw new Error('the manifests have no Deployment')
    const wrong = { ...deployment, spec: { ...deployment.spec, replica: 2 } }
    await expect(applyTo(cluster(), wrong)).rejects.toThrow(/spec\.replica/)
  })

  test('the API server accepts the manifests of a candidate', async () => {
    for (const file of files.filter((name) => name.startsWith('candidate/') && !name.includes('kustomization'))) {
      await applyTo(cluster(), inNamespace(readManifest(file), cluster().namespace))
    }
  })

  test.each(components)('the component %s patches deploy/multicluster', async (component) => {
    // Each component has its own namespace, so that they do not interfere.
    const { namespace } = cluster()
    const own = (manifest: Manifest) => inNamespace(manifest, namespace)
    for (const manifest of base.filter(({ kind }) => ['ConfigMap', 'ServiceAccount', 'Deployment'].includes(kind))) {
      await cluster().admin.request('DELETE', pathOf(own(manifest)))
      await applyTo(cluster(), own(manifest))
    }
    const patches = files.filter((file) => file.startsWith(`${component}/`) && isPatch(file)).map(readManifest)
    const others = files.filter((file) => file.startsWith(`${component}/`) && /(role|binding|policy)\.yaml$/.test(file))
    expect(patches.length + others.length).toBeGreaterThan(0)
    for (const patch of patches.filter((one) => !isDeletion(one))) {
      const patched = await applyTo<Deployment>(cluster(), own(patch), 'patch')
      if (patch.kind !== 'Deployment') continue
      // The original is complete. A patch replaces a list that has no merge key.
      const [container] = patched.spec.template.spec.containers
      if (!container) throw new Error('the Deployment has no container')
      const { env, envFrom, volumeMounts = [] } = container
      expect(env.map(({ name }) => name)).toEqual(expect.arrayContaining(['POD_NAME', 'POD_NAMESPACE']))
      expect(envFrom).toContainEqual({ configMapRef: { name: 'tenure-controller' } })
      const mounted = env.filter(({ name }) => name.endsWith('_FILE')).map(({ value = '' }) => value)
      for (const file of mounted)
        expect(volumeMounts.some(({ mountPath }) => file.startsWith(`${mountPath}/`))).toBe(true)
    }
    for (const file of others) await applyTo(cluster(), own(readManifest(file)))
  })

  test('the pods of deploy/multicluster pass the strictest pod security standard of their namespace', async () => {
    const deployment = base.find(isDeployment)
    const template = deployment?.spec.template
    const pod = { apiVersion: 'v1', kind: 'Pod', ...template, metadata: { ...template?.metadata, name: 'probe' } }
    const path = '/api/v1/namespaces/tenure-system/pods?fieldValidation=Strict&dryRun=All'
    const { status, body } = await cluster().admin.request('POST', path, pod)
    expect(status, JSON.stringify(body)).toBe(201)
    const careless = { ...pod, spec: { ...template?.spec, securityContext: {} } }
    expect((await cluster().admin.request('POST', path, careless)).status).toBe(403)
  })
})

describeWithRight(whyNoKubectl(), 'deploy/multicluster by kubectl', () => {
  describeWithCluster('on a real API server', (cluster) => {
    /** Builds and applies an overlay as shown in the README. */
    const apply = (kustomization: string) => {
      const { url, caFile, adminToken } = cluster()
      const place = mkdtempSync(join(tmpdir(), 'tenure-multicluster-'))
      onTestFinished(() => rmSync(place, { recursive: true }))
      for (const name of ['deploy', 'overlay']) mkdirSync(join(place, name))
      symlinkSync(folder, join(place, 'deploy/multicluster'))
      writeFileSync(join(place, 'overlay/kustomization.yaml'), kustomization)
      const kubectl = (...args: string[]) => execFileSync('kubectl', args, { encoding: 'utf8', cwd: place })
      const access = [`--server=${url}`, `--certificate-authority=${caFile}`, `--token=${adminToken}`]
      kubectl(
        'apply',
        '--server-side',
        '--force-conflicts',
        '--dry-run=server',
        '--validate=strict',
        '-k',
        'overlay',
        ...access,
      )
      return parseObjects(kubectl('kustomize', 'overlay'))
    }
    const overlay =
      findBlocks('README.md', readme)
        .filter(({ info }) => info[0] === 'yaml')
        .map(({ code }) => code)
        .find((code) => code.includes('kind: Kustomization')) ?? ''

    beforeAll(async () => {
      for (const manifest of base) await applyTo(cluster(), manifest)
      await cluster().admin.request('POST', '/api/v1/namespaces', { metadata: { name: 'jobs' } })
    })

    test('the overlay of the README applies deploy/multicluster', () => {
      const built = apply(overlay)
      const config = built.find(({ kind }) => kind === 'ConfigMap')
      expect(config).toMatchObject({ data: { TENURE_CLUSTER: 'east', TENURE_STORE: expect.stringMatching(/^etcds:/) } })
      expect(JSON.stringify(built.find(isDeployment))).toContain('"image":"example.com/tenure:')
    })

    test.each(components)('the overlay of the README applies with %s', (component) => {
      const built = apply(overlay.replace('components/etcd', component))
      const kinds = built.map(({ kind }) => kind)
      expect(kinds.includes('ClusterRole')).toBe(component !== 'components/one-namespace')
      expect(kinds).toContain('CustomResourceDefinition')
    })
  })
})
