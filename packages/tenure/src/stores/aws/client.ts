import { messageOf } from '@tenure/internal/message'
import { invalidOption, TenureError } from '../../common/errors.ts'
import { loadDriver } from '../../store-kit/load-package.ts'

/** Any client of the AWS SDK for JavaScript, version 3. Its commands are loaded from the client's package. */
export interface AwsClient {
  readonly config: object
  send(command: never, options?: SendOptions): Promise<unknown>
}

/** Options of each request. */
export interface SendOptions {
  readonly abortSignal: AbortSignal
}

type Operations<Api> = {
  [Name in keyof Api]: (input: never, options: SendOptions) => Promise<unknown>
}

type AwsCommand = new (input: object) => never

/** Calls an AWS operation by name. */
export type AwsCaller<Api extends Operations<Api>> = <Name extends keyof Api & string>(
  name: Name,
  input: Parameters<Api[Name]>[0],
  signal: AbortSignal,
) => Promise<Awaited<ReturnType<Api[Name]>>>

/**
 * Calls the operations of a client. Uses the client's own methods if it has them (`new S3()`), otherwise the commands
 * of the SDK's package (`new S3Client()`), which is loaded on the first call.
 */
export function awsCaller<Api extends Operations<Api>>(client: object, packageName: string): AwsCaller<Api> {
  let commands: Promise<object> | undefined
  return async (name, input, signal) => {
    const options = { abortSignal: signal }
    const method: unknown = Reflect.get(client, name)
    if (typeof method === 'function') return method.call(client, input, options)
    commands ??= loadCommands(packageName)
    const command: unknown = Reflect.get(await commands, `${name.charAt(0).toUpperCase()}${name.slice(1)}Command`)
    if (typeof command !== 'function') {
      throw new TenureError(
        'DRIVER_MISSING',
        `The package "${packageName}" has no operation ${name}. Install a newer version.`,
      )
    }
    return (client as AwsClient).send(new (command as AwsCommand)(input), options) as never
  }
}

async function loadCommands(packageName: string): Promise<object> {
  try {
    return await loadDriver(packageName)
  } catch (cause) {
    const text = `${messageOf(cause)}. If the package is bundled into the program, pass a client with all operations instead (DynamoDB or S3).`
    throw new TenureError('DRIVER_MISSING', text, { cause })
  }
}

/** Throws if the value is not a client of the SDK. `hint` names the accepted classes. */
export function checkAwsClient(client: unknown, hint: string): asserts client is object {
  const isClient = typeof client === 'object' && client !== null && typeof Reflect.get(client, 'send') === 'function'
  if (!isClient) throw invalidOption('client', client, `it must be ${hint}`)
}
