import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { findBlocks } from '../documents.ts'
import { filesNamedBy, parseOne, type Manifest } from '../kubernetes/manifests.ts'
import {
  compose,
  composeFolder,
  manifestFiles,
  manifestFolder,
  readServiceManifest,
  statefulSet,
  unknownFlags,
} from './service-manifests.ts'

const labels = { 'app.kubernetes.io/name': 'tenure' }
const resources = manifestFiles.filter((file) => file !== 'kustomization.yaml')
const { spec: pod } = statefulSet.spec.template
const [container] = pod.containers

interface Overlay extends Manifest {
  readonly secretGenerator: readonly Generated[]
  readonly configMapGenerator: readonly Generated[]
}
interface Generated {
  readonly name: string
  readonly literals?: readonly string[]
  readonly files?: readonly string[]
}

describe('the manifests of the service', () => {
  test('the kustomization of the service names every manifest, and their names and labels match', () => {
    expect(filesNamedBy(readServiceManifest('kustomization.yaml'), 'kustomization.yaml')).toEqual(resources)
    for (const file of resources) expect(readServiceManifest(file).metadata.labels, file).toEqual(labels)
    expect(statefulSet.spec.selector.matchLabels).toEqual(labels)
    expect(statefulSet.spec.template.metadata.labels).toEqual(labels)
    expect(statefulSet.spec.serviceName).toBe(readServiceManifest('service-replicas.yaml').metadata.name)
    expect(pod.serviceAccountName).toBe(readServiceManifest('serviceaccount.yaml').metadata.name)
    for (const file of ['poddisruptionbudget.yaml', 'networkpolicy.yaml']) {
      expect(JSON.stringify(readServiceManifest(file)['spec'])).toContain(JSON.stringify({ matchLabels: labels }))
    }
    for (const file of ['service.yaml', 'service-replicas.yaml']) {
      expect(readServiceManifest(file)['spec']).toMatchObject({ selector: labels })
    }
  })

  test('the manifests of the service start it with existing flags and matching ports', () => {
    expect(unknownFlags(container.args)).toEqual([])
    expect(unknownFlags(['--advertised=x'])).toEqual(['--advertised=x'])
    const ports = Object.fromEntries(container.ports.map(({ name, containerPort }) => [name, containerPort]))
    expect(container.args).toContain(`--listen=:${ports['https']}`)
    const advertise = container.args.find((arg) => arg.startsWith('--advertise=')) ?? ''
    expect(advertise).toBe(
      `--advertise=https://$(POD_NAME).${statefulSet.spec.serviceName}.$(POD_NAMESPACE).svc:${ports['replicas']}`,
    )
    expect(readServiceManifest('service.yaml')['spec']).toMatchObject({ ports: [{ targetPort: 'https' }] })
    expect(readServiceManifest('service-replicas.yaml')['spec']).toMatchObject({ ports: [{ targetPort: 'replicas' }] })
  })

  test('the manifests of the service mount every file that a flag names, and the overlay of the README creates every object and key', () => {
    const readme = readFileSync(join(manifestFolder, 'README.md'), 'utf8')
    const block = findBlocks('README.md', readme).find(({ info }) => info[0] === 'yaml')?.code ?? ''
    const { secretGenerator, configMapGenerator } = parseOne(`${block}\nmetadata: { name: overlay }`) as Overlay
    const made = new Map(
      [...secretGenerator, ...configMapGenerator].map(({ name, literals = [], files = [] }) => [
        name,
        [...literals, ...files].map((text) => text.replace(/=.*/, '')),
      ]),
    )
    const objectOf = new Map(
      pod.volumes.map(({ name, secret, configMap }) => [name, secret?.secretName ?? configMap?.name ?? '']),
    )
    const named = [...container.args, ...container.env.map(({ value = '' }) => value)].flatMap(
      (text) => /\/etc\/tenure\/.*/.exec(text)?.[0] ?? [],
    )
    expect(named).toHaveLength(5)
    for (const file of named) {
      const mount = container.volumeMounts.find(({ mountPath }) => file.startsWith(`${mountPath}/`))
      expect(made.get(objectOf.get(mount?.name ?? '') ?? ''), file).toContain(
        file.slice((mount?.mountPath.length ?? 0) + 1),
      )
    }
    for (const { valueFrom } of container.env) {
      const { name, key } = valueFrom?.secretKeyRef ?? {}
      if (name !== undefined) expect(made.get(name)).toContain(key)
    }
    const settings = container.envFrom.flatMap(({ configMapRef }) => made.get(configMapRef.name) ?? [])
    expect(settings).toEqual(['TENURE_JWT_ISSUER', 'TENURE_JWT_AUDIENCE'])
  })
})

describe('the compose file of the service', () => {
  const { services, networks, volumes } = compose
  const replicas = Object.entries(services).filter(([name]) => name.startsWith('tenure-'))
  const members = Object.entries(services).filter(([name]) => name.startsWith('etcd-'))

  test('the compose file has three replicas and three etcd members that differ only in their names', () => {
    expect(Object.keys(services)).toHaveLength(7)
    for (const alike of [replicas, members]) {
      expect(alike).toHaveLength(3)
      const texts = alike.map(([name, service]) =>
        JSON.stringify(service)
          // The shared arguments name all of them.
          .replaceAll(/--initial-cluster=[^"]+|etcd:\/\/[^"]+/g, '')
          .replaceAll(name, 'NAME'),
      )
      expect(new Set(texts).size).toBe(1)
    }
    for (const { networks: joined } of Object.values(services)) {
      for (const network of joined) expect(networks).toHaveProperty(network)
    }
    const kept = members.map(([, { volumes: mounted = [] }]) => mounted[0]?.replace(/:.*/, ''))
    expect(kept).toEqual(Object.keys(volumes))
  })

  test("the compose file mounts exactly the files named by a replica's flags", () => {
    for (const [name, { command = [], volumes: mounted = [] }] of replicas) {
      const named = new Set(command.flatMap((flag) => /\/etc\/tenure\/.+/.exec(flag)?.[0] ?? []))
      expect(named.size).toBe(4)
      const seen = [...named].map((file) => `./config/${basename(file)}:${file}:ro`)
      expect([...mounted].toSorted(), name).toEqual(seen.toSorted())
    }
  })

  test('the compose file starts replicas with existing flags, under the names that the load balancer and the certificates use', () => {
    const balancer = readFileSync(join(composeFolder, 'haproxy.cfg'), 'utf8')
    const certificates = readFileSync(join(composeFolder, 'certificates.sh'), 'utf8')
    for (const [name, { command = [], environment = {} }] of replicas) {
      expect(unknownFlags(command), name).toEqual([])
      expect(command).toContain(`--advertise=https://${name}:7071`)
      expect(balancer).toContain(`server ${name} ${name}:7070 verifyhost ${name}\n`)
      expect(certificates).toContain(`DNS:${name},`)
      const { TENURE_STORE: store = '' } = environment
      expect(store).toBe(`etcd://${members.map(([member]) => `${member}:2379`).join()}/tenure`)
    }
  })
})
