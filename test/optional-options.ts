import ts from 'typescript'
import { programOf } from './option-takers.ts'

/** Types by whose name a reader knows that their objects are written by users. */
const written = /(?:Options|Observer|Callbacks|Config)$/

/**
 * Finds optional properties of option objects, in the declarations behind these entry points, that do not accept
 * `undefined`. With `exactOptionalPropertyTypes` such an option refuses `{ clock: maybeClock }`.
 */
export function findStrictOptions(entries: readonly { readonly entry: string; readonly file: string }[]): string[] {
  const program = programOf(entries)
  const checker = program.getTypeChecker()
  const seen = new Set<ts.Node>()
  const found = new Set<string>()

  const look = (where: string, type: ts.Type): void => {
    const parts = type.isUnion() ? type.types : [checker.getNonNullableType(type)]
    for (const property of parts.flatMap((part) => checker.getPropertiesOfType(part))) {
      for (const declaration of property.declarations ?? []) {
        const isMember = ts.isPropertySignature(declaration) || ts.isMethodSignature(declaration)
        if (!isMember || seen.has(declaration)) continue
        seen.add(declaration)
        if (declaration.questionToken && !takesUndefined(declaration)) found.add(`${where}.${property.name}`)
        if (declaration.type && ts.isPropertySignature(declaration))
          lookBelow(`${where}.${property.name}`, declaration.type)
      }
    }
  }

  /** Goes on into what is an object of options by itself. */
  const lookBelow = (where: string, node: ts.TypeNode): void => {
    if (ts.isUnionTypeNode(node)) return node.types.forEach((part) => lookBelow(where, part))
    const isReference = ts.isTypeReferenceNode(node) && written.test(node.typeName.getText())
    if (isReference || ts.isTypeLiteralNode(node)) look(where, checker.getTypeFromTypeNode(node))
  }

  const visit = (node: ts.Node): void => {
    if (ts.isParameter(node) && node.type && isOfOptions(node)) look(nameOf(node), checker.getTypeAtLocation(node))
    if ((ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) && written.test(node.name.text)) {
      look(node.name.text, checker.getTypeAtLocation(node))
    }
    ts.forEachChild(node, visit)
  }
  for (const { entry, file } of entries) {
    const source = program.getSourceFile(file)
    const module = source && checker.getSymbolAtLocation(source)
    if (!module) throw new Error(`${entry}: ${file} is not a module; build first.`)
    for (const exported of checker.getExportsOfModule(module)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
      for (const declaration of symbol.declarations ?? []) visit(declaration)
    }
  }
  return [...found].toSorted()
}

/** By its name, the name of its type, or because its type is written out in place. */
function isOfOptions({ name, type }: ts.ParameterDeclaration): boolean {
  // The clients of clouds call what they are given `input`. The library writes it, not the user.
  if (!type || name.getText() === 'input') return false
  const isNamed = /options$/i.test(name.getText()) || /Options(?:<[^]*>)?$/.test(type.getText())
  return isNamed || ts.isTypeLiteralNode(type)
}

/** A method never does: what it returns may be undefined, but not the method. */
function takesUndefined(member: ts.PropertySignature | ts.MethodSignature): boolean {
  if (ts.isMethodSignature(member)) return false
  const { type } = member
  const parts = type && ts.isUnionTypeNode(type) ? type.types : [type]
  const kinds = [ts.SyntaxKind.UndefinedKeyword, ts.SyntaxKind.UnknownKeyword]
  return parts.some((part) => part !== undefined && kinds.includes(part.kind))
}

function nameOf(parameter: ts.ParameterDeclaration): string {
  const { parent } = parameter
  const named = ts.isFunctionLike(parent) && parent.name ? parent.name.getText() : 'constructor'
  const owner = parent.parent && ts.isClassLike(parent.parent) ? `${parent.parent.name?.text}.` : ''
  return `${owner}${named}(${parameter.name.getText()})`
}
