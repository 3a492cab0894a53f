import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseAllDocuments } from 'yaml'

/** The folder of the manifests. */
export const folder = join(import.meta.dirname, '../../deploy/kubernetes')

/** An object of the Kubernetes API, with the fields that tests read. */
export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly labels?: Record<string, string> }
  readonly [field: string]: unknown
}

/** Returns every YAML file under a folder, as a path relative to it. */
export function listFilesIn(place: string): string[] {
  return readdirSync(place, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.yaml'))
    .toSorted()
}

/** Returns the only object of a file. */
export function readManifest(file: string): Manifest {
  return parseOne(readFileSync(join(folder, file), 'utf8'))
}

/** Returns the files that a kustomization of a folder names, relative to the folder. */
export function filesNamedBy(kustomization: Manifest, file: string): string[] {
  const {
    resources = [],
    patches = [],
    configurations = [],
  } = kustomization as Manifest & { resources?: string[]; patches?: { path: string }[]; configurations?: string[] }
  return [...resources, ...patches.map(({ path }) => path), ...configurations]
    .map((name) => join(dirname(file), name))
    .toSorted()
}

/** Parses YAML that contains one object. */
export function parseOne(text: string): Manifest {
  const [manifest, ...more] = parseObjects(text)
  if (!manifest || more.length > 0) throw new Error('A manifest must contain exactly one object.')
  return manifest
}

/** Parses YAML. Warnings count as errors. */
export function parseObjects(text: string): Manifest[] {
  const documents = parseAllDocuments(text)
  if (!Array.isArray(documents)) return []
  return documents.map((document) => {
    const [fault] = [...document.errors, ...document.warnings]
    if (fault) throw fault
    return document.toJS() as Manifest
  })
}

const collections: Record<string, string> = {
  ServiceAccount: 'serviceaccounts',
  Pod: 'pods',
  Lease: 'leases',
  Role: 'roles',
  RoleBinding: 'rolebindings',
  Deployment: 'deployments',
  StatefulSet: 'statefulsets',
  PodDisruptionBudget: 'poddisruptionbudgets',
  Service: 'services',
  EndpointSlice: 'endpointslices',
  NetworkPolicy: 'networkpolicies',
  FlowSchema: 'flowschemas',
  ConfigMap: 'configmaps',
  Secret: 'secrets',
  Namespace: 'namespaces',
  ClusterRole: 'clusterroles',
  ClusterRoleBinding: 'clusterrolebindings',
  CustomResourceDefinition: 'customresourcedefinitions',
}

/** The kinds that belong to no namespace. */
const clusterWide = ['FlowSchema', 'Namespace', 'ClusterRole', 'ClusterRoleBinding', 'CustomResourceDefinition']

/** Returns the path at which objects of this kind are created. */
export function collectionOf({ apiVersion, kind }: Manifest, namespace: string): string {
  const collection = collections[kind]
  if (!collection) throw new Error(`The path for objects of kind ${kind} is not known here.`)
  const place = clusterWide.includes(kind) ? '' : `namespaces/${namespace}/`
  return `/${apiVersion.includes('/') ? 'apis' : 'api'}/${apiVersion}/${place}${collection}`
}

/** Returns the object as kustomize would put it into a namespace. */
export function inNamespace(manifest: Manifest, namespace: string): Manifest {
  const subjects = manifest['subjects'] as { kind: string }[] | undefined
  return {
    ...manifest,
    metadata: { ...manifest.metadata, namespace },
    ...(subjects && { subjects: subjects.map((subject) => ({ ...subject, namespace })) }),
  } as Manifest
}
