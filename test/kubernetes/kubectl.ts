import { execFileSync } from 'node:child_process'

/** Returns why kubectl cannot render the manifests here, or undefined. Debian has no package for kubectl. */
export function whyNoKubectl(): string | undefined {
  try {
    execFileSync('kubectl', ['kustomize', '--help'], { stdio: 'ignore' })
    return undefined
  } catch (error) {
    return `kubectl is not available: ${String(error)}`
  }
}
