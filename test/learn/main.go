package main
import ("fmt";"os";"slices";"maps";"encoding/json")
func main(){ for _, d := range os.Args[1:] { t,err:=load(d); if err!=nil {panic(err)}
f:=read(t); for _,k := range append(kinds,"wrapper") { fmt.Println("==",k,len(f[k])); for _, n := range slices.Sorted(maps.Keys(f[k])) { j,_:=json.Marshal(n); fmt.Println(string(j), f[k][n][0]) } }
} }
