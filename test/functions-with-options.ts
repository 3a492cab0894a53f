import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

const root = join(import.meta.dirname, '..')

/** A public function, constructor, or method that takes an options object. */
export interface OptionTaker {
  /** For example `tenure: Elector.start`. A constructor has only the name of its class. */
  readonly name: string
  /** The option names that its type declares. */
  readonly options: readonly string[]
}

/**
 * Returns the declarations of each entry point of a package, except the internal ones of the library, whose declarations
 * are not published.
 */
export function entryPoints(folder: string): { readonly entry: string; readonly file: string }[] {
  const manifest: { name: string; exports: Record<string, string | { types: string }> } = JSON.parse(
    readFileSync(join(root, folder, 'package.json'), 'utf8'),
  )
  return Object.entries(manifest.exports).flatMap(([path, target]) =>
    typeof target === 'string' || (manifest.name === 'tenure' && path.startsWith('./internal'))
      ? []
      : [{ entry: join(manifest.name, path), file: join(root, folder, target.types) }],
  )
}

/** Reads the declarations of these entry points without those of Node and of JavaScript, which take seconds. */
export function programOf(entries: readonly { readonly file: string }[]): ts.Program {
  const options: ts.CompilerOptions = {
    module: ts.ModuleKind.NodeNext,
    target: ts.ScriptTarget.ESNext,
    strict: true,
    noLib: true,
    types: [],
  }
  const host = ts.createCompilerHost(options)
  host.resolveTypeReferenceDirectiveReferences = (references) =>
    references.map(() => ({ resolvedTypeReferenceDirective: undefined }))
  const files = entries.map(({ file }) => file)
  return ts.createProgram(files, options, host)
}

/** Finds every function, constructor, and method of these entry points that takes options. */
export function findOptionTakers(entries: readonly { readonly entry: string; readonly file: string }[]): OptionTaker[] {
  const program = programOf(entries)
  const checker = program.getTypeChecker()
  const seen = new Set<ts.Symbol>()
  const found: OptionTaker[] = []

  const look = (name: string, declarations: readonly ts.Node[]): void => {
    for (const declaration of declarations) {
      if (!ts.isFunctionLike(declaration)) continue
      for (const parameter of declaration.parameters) {
        if (takesOptions(parameter)) found.push({ name, options: namesOf(checker.getTypeAtLocation(parameter)) })
      }
    }
  }
  const namesOf = (type: ts.Type): string[] => {
    const types = type.isUnion() ? type.types : [type]
    const names = types.flatMap((one) => checker.getPropertiesOfType(checker.getNonNullableType(one)))
    return [...new Set(names.map((symbol) => symbol.name))]
  }

  for (const { entry, file } of entries) {
    const source = program.getSourceFile(file)
    const module = source && checker.getSymbolAtLocation(source)
    if (!module) throw new Error(`${file} is not a module. Run npm run build first.`)
    for (const exported of checker.getExportsOfModule(module)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
      if (seen.has(symbol)) continue
      seen.add(symbol)
      const name = `${entry}: ${exported.name}`
      look(name, symbol.declarations ?? [])
      for (const declaration of symbol.declarations ?? []) {
        if (!ts.isClassDeclaration(declaration) && !ts.isInterfaceDeclaration(declaration)) continue
        for (const member of declaration.members) {
          const isConstructor = ts.isConstructorDeclaration(member)
          look(isConstructor ? name : `${name}.${member.name?.getText()}`, [member])
        }
      }
    }
  }
  return found
}

/** Decides by the parameter's name, by the name of its type, or because its type is an inline object. */
function takesOptions({ name, type }: ts.ParameterDeclaration): boolean {
  if (!type || /^(?:Call|Watch)Options$/.test(type.getText())) return false
  return /options$/i.test(name.getText()) || /Options(<[^]*>)?$/.test(type.getText()) || ts.isTypeLiteralNode(type)
}
