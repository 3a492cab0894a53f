import 'tenure'
