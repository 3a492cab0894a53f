import ts from 'typescript'
import { programOf } from './functions-with-options.ts'

/** The names of types whose objects users write. */
const written = /(?:Options|Observer|Callbacks|Config)$/

/**
 * Finds optional properties of options objects, in the declarations of these entry points, that do not accept
 * `undefined`. With `exactOptionalPropertyTypes` such an option rejects `{ clock: maybeClock }`.
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

  /** Descends into nested options objects. */
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
    if (!module) throw new Error(`${entry}: ${file} is not a module. Run npm run build first.`)
    for (const exported of checker.getExportsOfModule(module)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
      for (const declaration of symbol.declarations ?? []) visit(declaration)
    }
  }
  return [...found].toSorted()
}

/** Decides by the parameter's name, by the name of its type, or because its type is an inline object. */
function isOfOptions({ name, type }: ts.ParameterDeclaration): boolean {
  // The clients of clouds call their parameter `input`. The library writes it, not the user.
  if (!type || name.getText() === 'input') return false
  const isNamed = /options$/i.test(name.getText()) || /Options(?:<[^]*>)?$/.test(type.getText())
  return isNamed || ts.isTypeLiteralNode(type)
}

/** A method is never undefined itself, although its result may be. */
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
